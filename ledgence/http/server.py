"""The task service as an ASGI application: answers /ledgence/v1/ itself and leaves everything else to the next one."""

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import replace
from types import FrameType
from typing import Any

from ledgence.conf import get_settings
from ledgence.http.call import Call, Head, Refused, check_size, explain, finish, read_head, request_id_of
from ledgence.http.endpoint import Lane, Reply, Topic
from ledgence.http.lanes import Lanes
from ledgence.http.waits import News, Waits
from ledgence.service import DatabaseTaskService
from ledgence_worker import wire
from ledgence_worker.errors import Busy
from ledgence_worker.protocol import Acquire

logger = logging.getLogger("ledgence.http")

PREFIX = "/ledgence/v1/"
#: A body must be complete within this time, or the connection is given up.
BODY_SECONDS = 30.0
#: A token is checked before a larger body is taken.
SMALL_BYTES = 64 * 1024
#: How many requests of one process may wait.
WAITS_MAX = 4096

type Message = MutableMapping[str, Any]
type Receive = Callable[[], Awaitable[Message]]
type Send = Callable[[Message], Awaitable[None]]
type Application = Callable[..., Awaitable[None]]


def wrap(application: Application) -> Application:
    """Return an ASGI application that is the task service under /ledgence/v1/ and ``application`` everywhere else.

    It has a few threads and database connections of its own, and none of the project's MIDDLEWARE. A request that waits
    holds neither. On SIGTERM and SIGINT every wait is answered at once.
    """
    server = Server()

    async def wrapped(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await server.live(receive, send)
        elif scope["type"] == "http" and scope["path"].startswith(PREFIX):
            await server.answer(scope, receive, send)
        else:
            await application(scope, receive, send)

    return wrapped


class Gone(Exception):
    """The caller hung up."""


class Server:
    """What one process needs to answer: made with its first request, on its event loop."""

    def __init__(self) -> None:
        self._is_started = False

    def _start(self) -> None:
        """Make what belongs to this process: after the server has forked it."""
        self._is_started = True
        self._loop = asyncio.get_running_loop()
        self._lanes = Lanes()
        self._service = DatabaseTaskService(get_settings().database, listen=False)
        self._waits = Waits(self._service, lambda function: self._lanes.run(Lane.WORK, function))
        if get_settings().hints:
            self._service.listen(self._waits.hear)
        _before_signals((signal.SIGTERM, signal.SIGINT), self._stop)

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._waits.stop)

    async def live(self, receive: Receive, send: Send) -> None:
        """Start and stop with the server process."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                if not self._is_started:
                    self._start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _close(self) -> None:
        if not self._is_started:
            return
        self._waits.stop()
        self._lanes.close()
        await asyncio.to_thread(self._service.close)

    async def answer(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request; whatever happens, with a typed reply."""
        if not self._is_started:
            self._start()
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
        request_id = request_id_of(headers)
        began = time.monotonic()
        has_body = True
        try:
            path = scope["path"][len(PREFIX) :]
            head = read_head(scope["method"], path, scope["query_string"].decode("latin-1"), headers)
            body = await self._take_body(head, receive)
            has_body = False
            reply = await self._reply(head, body, receive)
        except Gone:
            return
        except Exception as error:
            reply = explain(error)
        if has_body:
            # What is left of a body that was refused would be read as the next request.
            reply = replace(reply, headers=(*reply.headers, ("Connection", "close")))
        await _send(finish(reply, request_id), send, has_content=scope["method"] != "HEAD")
        logger.debug(
            "request method=%s path=%s status=%s request_id=%s seconds=%.4f",
            *(scope["method"], scope["path"], reply.status, request_id, time.monotonic() - began),
        )

    async def _take_body(self, head: Head, receive: Receive) -> bytes:
        """Take the whole body, counted while it arrives. Raises Refused, Gone."""
        is_checked = not head.endpoint.roles
        call = Call(self._service, head)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    if not is_checked and (head.content_length is None or size + SMALL_BYTES <= head.content_length):
                        is_checked = True
                        if head.endpoint.body is not None:
                            await self._lanes.run(head.endpoint.lane, call.authenticate)
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Gone
                    part = message.get("body", b"")
                    size += len(part)
                    check_size(head, size)
                    parts.append(part)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise Refused(408, f"The body did not arrive within {BODY_SECONDS:g} s.") from None

    async def _reply(self, head: Head, body: bytes, receive: Receive) -> Reply:
        received = time.monotonic()
        call = Call(self._service, head)
        lane = head.endpoint.lane

        def begin() -> tuple[float, Topic | None, Reply | None]:
            # One trip to a thread for what needs no wait, which is nearly everything.
            seconds, topic = call.read(body)
            if topic is None or seconds == 0:
                return seconds, topic, call.attempt(is_last=True)
            return seconds, topic, None

        seconds, topic, reply = await self._lanes.run(lane, begin)
        if reply is None and topic is not None:
            reply = await self._wait(call, lane, topic, received + seconds, receive, received)
        if reply is None:
            raise RuntimeError("A last attempt answered nothing.")
        if isinstance(topic, Acquire) and topic.settlements:
            self._waits.ended([settlement.task_id for settlement in topic.settlements])
        return reply

    async def _wait(
        self, call: Call, lane: Lane, topic: Topic, deadline: float, receive: Receive, received: float
    ) -> Reply | None:
        if self._waits.count >= WAITS_MAX:
            raise Busy(f"{WAITS_MAX} requests wait here already; nothing was done. Send it again.")
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            waiting = asyncio.ensure_future(self._until_news(call, lane, topic, deadline, received))
            await asyncio.wait({gone, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                # Nothing is taken for a caller that is not there; a try that has begun ends in its thread.
                waiting.cancel()
                raise Gone
            return waiting.result()
        finally:
            gone.cancel()

    async def _until_news(self, call: Call, lane: Lane, topic: Topic, deadline: float, received: float) -> Reply | None:
        skips = isinstance(topic, Acquire) and self._waits.may_skip(topic)
        while True:
            is_last = time.monotonic() >= deadline or self._waits.is_stopping
            if isinstance(topic, Acquire):
                self._waits.begin(topic.session_id)
            if not skips or is_last:
                tried_at = time.monotonic()
                reply = await self._lanes.run(lane, lambda: call.attempt(is_last=is_last))  # noqa: B023 - awaited here
                if reply is not None:
                    return _held(reply, tried_at - received) if isinstance(topic, Acquire) else reply
            skips = False
            if isinstance(topic, Acquire):
                news = await self._waits.for_work(topic, deadline)
            else:
                news = await self._waits.for_end(topic, deadline)
            if news is News.RECORDED:
                return EMPTY
            if news is News.OVER:
                deadline = 0.0


#: The reply to a wait that ended without work.
EMPTY = Reply(body=b"{}")


def _held(reply: Reply, seconds: float) -> Reply:
    """Tell the worker how long the request was held before the leases were taken: its clock must not count that."""
    return replace(reply, body=wire.with_member(reply.body, "held_seconds", seconds))


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(reply: Reply, send: Send, *, has_content: bool) -> None:
    headers = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in reply.headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body if has_content else b""})


def _before_signals(signals: tuple[signal.Signals, ...], function: Callable[[], None]) -> None:
    """Call a function at these signals, before the handler that the server has set.

    An event loop learns of signals by its wake-up descriptor, which this leaves alone.
    """

    def chain(number: signal.Signals) -> None:
        previous = signal.getsignal(number)

        def handler(signum: int, frame: FrameType | None) -> None:
            function()
            if callable(previous):
                previous(signum, frame)
            elif previous == signal.SIG_DFL:
                signal.signal(signum, signal.SIG_DFL)
                signal.raise_signal(signum)

        signal.signal(number, handler)

    try:
        for number in signals:
            chain(number)
    except ValueError:
        # Not the main thread, as under some development servers: the waits then last until they are over.
        logger.info("signals not seen: waits are not answered early when this process stops")
