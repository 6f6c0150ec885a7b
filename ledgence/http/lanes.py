"""The threads of a server process: a few for each kind of request, so that none waits behind another kind."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ledgence.http.endpoint import Lane
from ledgence_worker.errors import Busy

THREADS = {Lane.RENEW: 2, Lane.WORK: 4, Lane.TASKS: 4, Lane.READY: 1}
#: How many requests may stand before a lane's threads: more could not be answered before their callers give up.
QUEUE_MAX = 1024


#: Runs a function on one of a lane's threads.
type Run = Callable[[Callable[[], Any]], Awaitable[Any]]


class Lanes:
    """Runs functions on the threads of a lane. Belongs to the event loop."""

    def __init__(self) -> None:
        self._pools = {
            lane: ThreadPoolExecutor(count, thread_name_prefix=f"ledgence-{lane}") for lane, count in THREADS.items()
        }
        self._counts = dict.fromkeys(THREADS, 0)
        self._begun: set[asyncio.Future[Any]] = set()
        self._is_closed = False

    async def run[T](self, lane: Lane | None, function: Callable[[], T]) -> T:
        """Run a function to its end, whatever becomes of the caller; without a lane, here and at once.

        Raises Busy when too many stand before it.
        """
        if lane is None:
            return function()
        if self._is_closed:
            raise Busy("This process stops; nothing was done. Send it again.")
        if self._counts[lane] >= QUEUE_MAX:
            raise Busy(f"{QUEUE_MAX} requests of this kind wait already; nothing was done. Send it again.")
        future = asyncio.get_running_loop().run_in_executor(self._pools[lane], function)
        self._counts[lane] += 1
        self._begun.add(future)
        # Counted until the function ends: a caller that hangs up leaves its work behind.
        future.add_done_callback(lambda done: self._leave(lane, done))
        return await asyncio.shield(future)

    def _leave(self, lane: Lane, done: asyncio.Future[Any]) -> None:
        self._counts[lane] -= 1
        self._begun.discard(done)

    def close(self) -> None:
        """End the threads when they have finished what stands before them."""
        self._is_closed = True
        for pool in self._pools.values():
            pool.shutdown(wait=False)

    async def end(self, seconds: float) -> None:
        """Wait up to so many seconds until everything has ended that was begun: its callers may be gone."""
        if self._begun:
            await asyncio.wait(self._begun, timeout=seconds)
