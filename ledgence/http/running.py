"""What one process needs to answer requests, from its first one to its end."""

import asyncio
import time
from contextlib import suppress
from functools import partial

from ledgence.conf import get_settings
from ledgence.housekeeping import Housekeeping
from ledgence.http.body import Bodies, Body, Receive
from ledgence.http.call import Call
from ledgence.http.end_waits import EndWaits
from ledgence.http.endpoint import Lane, Reply, Topic
from ledgence.http.kept import Kept
from ledgence.http.lanes import Lanes
from ledgence.http.parking import Parking
from ledgence.http.routing import Head
from ledgence.http.work_waits import WorkWaits
from ledgence.service import DatabaseTaskService


class Running:
    """Answers requests: made on the event loop, after the server has forked the process. Belongs to the loop."""

    def __init__(self, *, housekeeping: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._lanes = Lanes()
        self._kept = Kept()
        self._bodies = Bodies()
        self._service = DatabaseTaskService(get_settings().database, listen=False)
        self.work_waits = WorkWaits(self._service, partial(self._lanes.run, Lane.WORK))
        self.end_waits = EndWaits(self._service, partial(self._lanes.run, Lane.TASKS))
        self.parking = Parking({Topic.WORK: self.work_waits, Topic.END: self.end_waits}, self._lanes)
        if get_settings().hints:
            self._service.listen(self.work_waits.hear)
        self._housekeeping = Housekeeping(get_settings().database) if housekeeping else None
        if self._housekeeping is not None:
            self._housekeeping.start()

    def call(self, head: Head) -> Call:
        """Begin to answer a request."""
        return Call(self._service, head)

    async def take_body(self, call: Call, receive: Receive) -> Body:
        """Take its body. Raises Refused, LedgenceError."""
        return await self._bodies.take(call.head, receive, lambda: self._lanes.run(call.lane, call.admit))

    async def reply(self, call: Call, body: Body, receive: Receive) -> Reply:
        """Return its reply, after a wait where it asks for one. Raises Gone, LedgenceError."""
        received = time.monotonic()
        try:
            reply = await self._begin(call, body)
        finally:
            # Not held during a wait: what is needed of it is read.
            body.let_go()
        if reply is None and call.wait is not None:
            reply = await self.parking.wait(call, call.wait, received, receive)
        if reply is None:
            raise RuntimeError(f"{call.head.endpoint.name} has no reply and may not wait.")
        self.end_waits.ended(call.ended())
        return reply

    async def _begin(self, call: Call, body: Body) -> Reply | None:
        if call.head.endpoint.kept_seconds:
            # Read here: it has no token to look up.
            call.read(body.content)
            return await self._kept.reply(call.head.endpoint, lambda: self._lanes.run(call.lane, call.answer))
        if body.is_large:
            async with self._bodies.reading:
                await self._lanes.run(call.lane, lambda: call.read(body.content))
            return await self._lanes.run(call.lane, call.begin)

        def read_and_begin() -> Reply | None:
            call.read(body.content)
            return call.begin()

        # One trip to a thread for what needs no wait, which is nearly everything.
        return await self._lanes.run(call.lane, read_and_begin)

    def stop_soon(self) -> None:
        """Answer every wait at once, from now on. May be called on any thread, and by a signal's handler."""
        # A loop that has ended has no waits.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.stop)

    def stop(self) -> None:
        """Answer every wait at once, from now on."""
        self.work_waits.stop()
        self.end_waits.stop()

    async def close(self, seconds: float) -> None:
        """End the threads and the connections; what has begun has so many seconds to end before these are closed."""
        self._lanes.close()
        await self._lanes.end(seconds)
        if self._housekeeping is not None:
            await asyncio.to_thread(self._housekeeping.close)
        await asyncio.to_thread(self._service.close)
