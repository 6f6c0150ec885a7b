"""The task service as an ASGI application: answers /ledgence/v1/ itself and leaves everything else to the next one."""

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ledgence.conf import get_settings
from ledgence.http.body import Bodies, Message, Receive, drop
from ledgence.http.call import Call
from ledgence.http.endpoint import Lane, Reply
from ledgence.http.kept import Kept
from ledgence.http.lanes import Lanes
from ledgence.http.parking import Gone, Parking
from ledgence.http.replies import explain, finish, request_id_of
from ledgence.http.routing import Head, has_body, read_head
from ledgence.http.stop_signals import call_before
from ledgence.http.waits import Waits
from ledgence.service import DatabaseTaskService
from ledgence_worker.protocol import Acquire

logger = logging.getLogger("ledgence.http")

PREFIX = "/ledgence/v1/"
#: How long requests may go on when the server that called closes.
CLOSE_SECONDS = 5.0

type Send = Callable[[Message], Awaitable[None]]
type Application = Callable[..., Awaitable[None]]


def wrap(application: Application) -> Application:
    """Return an ASGI application that is the task service under /ledgence/v1/ and ``application`` everywhere else.

    It has a few threads and database connections of its own, and none of the project's MIDDLEWARE. A request that waits
    holds neither. On SIGTERM and SIGINT every wait is answered at once. ``application`` sees no lifespan events:
    Django takes none.
    """
    server = Server()

    async def wrapped(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await server.live(receive, send)
        elif scope["type"] == "http" and _path(scope).startswith(PREFIX):
            await server.answer(scope, receive, send)
        else:
            await application(scope, receive, send)

    return wrapped


def _path(scope: Message) -> str:
    """Return the path below the one that the application is mounted at."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


class Server:
    """What one process needs to answer: made with its first request, on its event loop."""

    def __init__(self) -> None:
        self._is_started = False

    def _start(self) -> None:
        """Make what belongs to this process: after the server has forked it."""
        self._is_started = True
        self._loop = asyncio.get_running_loop()
        self._answering: set[Any] = set()
        self._lanes = Lanes()
        self._kept = Kept()
        self._bodies = Bodies()
        self._service = DatabaseTaskService(get_settings().database, listen=False)
        self._waits = Waits(self._service, lambda function: self._lanes.run(Lane.WORK, function))
        self._parking = Parking(self._waits, self._lanes)
        if get_settings().hints:
            self._service.listen(self._waits.hear)
        call_before((signal.SIGTERM, signal.SIGINT), self._stop)

    def _stop(self) -> None:
        # A loop that has ended has no waits.
        with suppress(RuntimeError):
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
        if self._answering:
            await asyncio.wait(self._answering, timeout=CLOSE_SECONDS)
        self._lanes.close()
        await asyncio.to_thread(self._service.close)

    async def answer(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request; whatever happens, with a typed reply."""
        if not self._is_started:
            self._start()
        task = asyncio.current_task()
        self._answering.add(task)
        try:
            await self._answer(scope, receive, send)
        finally:
            self._answering.discard(task)

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        began = time.monotonic()
        headers = _read_headers(scope)
        request_id = request_id_of(headers)
        is_body_left, body = has_body(headers), b""
        try:
            path = _path(scope)[len(PREFIX) :]
            head = read_head(scope["method"], path, scope["query_string"].decode("latin-1"), headers)
            body = await self._take_body(head, receive)
            is_body_left = False
            reply = await self._reply(head, body, receive)
        except Gone:
            return
        except Exception as error:
            reply = explain(error)
        finally:
            self._bodies.let_go(len(body))
        if is_body_left and (reply.status == 408 or not await drop(headers, receive)):
            # What is left of a body that was refused would be read as the next request.
            reply = replace(reply, headers=(*reply.headers, ("Connection", "close")))
        await _send(finish(reply, request_id), send, has_content=scope["method"] != "HEAD")
        logger.debug(
            "request method=%s path=%s status=%s request_id=%s seconds=%.4f",
            *(scope["method"], ascii(scope["path"]), reply.status, request_id, time.monotonic() - began),
        )

    async def _take_body(self, head: Head, receive: Receive) -> bytes:
        call = Call(self._service, head)
        return await self._bodies.take(head, receive, lambda: self._lanes.run(head.endpoint.lane, call.admit))

    async def _reply(self, head: Head, body: bytes, receive: Receive) -> Reply:
        received = time.monotonic()
        call = Call(self._service, head)

        def begin() -> tuple[float, object, Reply | None]:
            # One trip to a thread for what needs no wait, which is nearly everything.
            seconds, topic = call.read(body)
            is_over = topic is None or seconds == 0
            return seconds, topic, call.attempt(is_last=True) if is_over else None

        if head.endpoint.kept_seconds:
            # Read here: it has no token to look up.
            call.read(body)
            return await self._kept.reply(head.endpoint, lambda: self._lanes.run(head.endpoint.lane, call.answer))
        seconds, topic, reply = await self._lanes.run(head.endpoint.lane, begin)
        if reply is None:
            reply = await self._parking.wait(call, head.endpoint.lane or Lane.TASKS, topic, received, seconds, receive)
        if isinstance(topic, Acquire):
            self._waits.ended(settlement.task_id for settlement in topic.settlements)
        return reply


def _read_headers(scope: Message) -> dict[str, str]:
    """Return the headers by name. One that stands twice is one value with both, which no header here may have."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def _send(reply: Reply, send: Send, *, has_content: bool) -> None:
    headers = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in reply.headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body if has_content else b""})
