"""A request that waits: it looks, is parked until there is news, and looks again, while its caller is there."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Protocol

from ledgence.http.body import Receive
from ledgence.http.call import Call
from ledgence.http.endpoint import Lane, Reply, Topic, Wait
from ledgence.http.lanes import Lanes
from ledgence.http.news import News
from ledgence_worker.errors import Busy

#: How many requests of one process may wait.
WAITS_MAX = 4096
#: How many of them look at a time on one lane: a hint may wake all, and settlements must not queue behind them.
LOOKS_MAX = 2
#: The reply to a wait that ended without work.
EMPTY = Reply(body=b"{}")


class Gone(Exception):
    """The caller hung up."""


class Waits(Protocol):
    """The waits of a process for one topic. A key is what the topic's Wait has."""

    @property
    def is_stopping(self) -> bool:
        """Whether the process stops, so that nobody may wait."""

    def may_skip(self, key: Any) -> bool:
        """Whether a request need not look before it waits."""

    def begin(self, key: Any) -> Any:
        """Note what is known before a look; wait() is told, and misses nothing that comes after."""

    async def wait(self, key: Any, begun: Any, deadline: float) -> News:
        """Wait for news."""


class Parking:
    """Lets requests wait. Belongs to the event loop."""

    def __init__(self, waits: Mapping[Topic, Waits], lanes: Lanes) -> None:
        self._waits = waits
        self._lanes = lanes
        self._looks: dict[Lane | None, asyncio.Semaphore] = {lane: asyncio.Semaphore(LOOKS_MAX) for lane in Lane}
        #: How many requests wait: parked, looking, or standing in line to look.
        self.count = 0

    async def wait(self, call: Call, wait: Wait, received: float, receive: Receive) -> Reply:
        """Answer a request that may wait from when it was received. Raises Gone, LedgenceError.

        Nothing is taken for a caller that is not there any more; a look that has begun ends in its thread.
        """
        if self.count >= WAITS_MAX:
            raise Busy(f"{WAITS_MAX} requests wait here already; nothing was done. Send it again.")
        gone = asyncio.ensure_future(_disconnected(receive))
        waiting = asyncio.ensure_future(self._until_news(call, wait, received))
        self.count += 1
        try:
            await asyncio.wait({gone, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise Gone
            return waiting.result()
        finally:
            self.count -= 1
            gone.cancel()
            waiting.cancel()

    async def _until_news(self, call: Call, wait: Wait, received: float) -> Reply:
        waits, key, deadline = self._waits[wait.topic], wait.key, received + wait.seconds
        skips = waits.may_skip(key)
        while True:
            begun = waits.begin(key)
            is_last = time.monotonic() >= deadline or waits.is_stopping
            if is_last or not skips:
                reply = await self._look(call, received, is_last=is_last)
                if reply is not None:
                    return reply
            skips = False
            news = await waits.wait(key, begun, deadline)
            if news is News.RECORDED:
                return EMPTY
            if news is News.OVER:
                deadline = received

    async def _look(self, call: Call, received: float, *, is_last: bool) -> Reply | None:
        """Try; what is busy now is not told to a caller that may wait."""
        async with self._looks[call.lane]:
            held_seconds = time.monotonic() - received
            try:
                return await self._lanes.run(
                    call.lane, lambda: call.try_once(is_last=is_last, held_seconds=held_seconds)
                )
            except Busy:
                if is_last:
                    raise
                return None


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
