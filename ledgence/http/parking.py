"""A request that waits: it looks, is parked until there is news, and looks again, while its caller is there."""

import asyncio
import time
from dataclasses import replace
from typing import Any
from uuid import UUID

from ledgence.http.body import Receive
from ledgence.http.call import Call
from ledgence.http.endpoint import Lane, Reply
from ledgence.http.lanes import Lanes
from ledgence.http.waits import News, Waits
from ledgence_worker import wire
from ledgence_worker.errors import Busy
from ledgence_worker.protocol import Acquire

#: How many requests of one process may wait.
WAITS_MAX = 4096
#: How many of them look at a time: a hint may wake all, and settlements must not queue behind them.
LOOKS_MAX = 2
#: The reply to a wait that ended without work.
EMPTY = Reply(body=b"{}")


class Gone(Exception):
    """The caller hung up."""


class Parking:
    """Lets requests wait. Belongs to the event loop."""

    def __init__(self, waits: Waits, lanes: Lanes) -> None:
        self._waits = waits
        self._lanes = lanes
        self._looks = asyncio.Semaphore(LOOKS_MAX)

    async def wait(
        self, call: Call, lane: Lane, topic: Any, received: float, seconds: float, receive: Receive
    ) -> Reply:
        """Answer a request that may wait ``seconds`` from when it was received. Raises Gone, LedgenceError.

        Nothing is taken for a caller that is not there any more; a look that has begun ends in its thread.
        """
        if self._waits.count >= WAITS_MAX:
            raise Busy(f"{WAITS_MAX} requests wait here already; nothing was done. Send it again.")
        gone = asyncio.ensure_future(_disconnected(receive))
        waiting = asyncio.ensure_future(self._until_news(call, lane, topic, received, received + seconds))
        try:
            await asyncio.wait({gone, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise Gone
            return waiting.result()
        finally:
            gone.cancel()
            waiting.cancel()

    async def _until_news(
        self, call: Call, lane: Lane, topic: Acquire | UUID, received: float, deadline: float
    ) -> Reply:
        skips = isinstance(topic, Acquire) and self._waits.may_skip(topic)
        while True:
            heard = self._waits.begin(topic.session_id) if isinstance(topic, Acquire) else 0
            is_last = time.monotonic() >= deadline or self._waits.is_stopping
            if is_last or not skips:
                reply, tried_at = await self._look(call, lane, is_last=is_last)
                if reply is not None:
                    return _held(reply, tried_at - received) if isinstance(topic, Acquire) else reply
            skips = False
            if isinstance(topic, Acquire):
                news = await self._waits.for_work(topic, heard, deadline)
            else:
                news = await self._waits.for_end(topic, deadline)
            if news is News.RECORDED:
                return EMPTY
            if news is News.OVER:
                deadline = received

    async def _look(self, call: Call, lane: Lane, *, is_last: bool) -> tuple[Reply | None, float]:
        """Try, and tell when; what is busy now is not told to a caller that may wait."""
        async with self._looks:
            tried_at = time.monotonic()
            try:
                return await self._lanes.run(lane, lambda: call.attempt(is_last=is_last)), tried_at
            except Busy:
                if is_last:
                    raise
                return None, tried_at


def _held(reply: Reply, seconds: float) -> Reply:
    """Tell the worker how long the request was held before the leases were taken: its clock must not count that."""
    return replace(reply, body=wire.with_member(reply.body, "held_seconds", seconds))


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
