"""The task service as an ASGI application: answers /ledgence/v1/ itself and leaves everything else to the next one."""

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from ledgence.http.body import Message, Receive, drop
from ledgence.http.endpoint import Reply
from ledgence.http.parking import Gone
from ledgence.http.replies import explain, finish, request_id_of
from ledgence.http.routing import has_body, read_head
from ledgence.http.running import Running
from ledgence.http.stop_signals import call_before

logger = logging.getLogger("ledgence.http")

PREFIX = "/ledgence/v1/"
#: How long requests may go on when the server that called closes.
CLOSE_SECONDS = 5.0

type Send = Callable[[Message], Awaitable[None]]
type Application = Callable[..., Awaitable[None]]


def wrap(application: Application, *, housekeeping: bool = True) -> Application:
    """Return an ASGI application that is the task service under /ledgence/v1/ and ``application`` everywhere else.

    It has a few threads and database connections of its own, and none of the project's MIDDLEWARE. A request that waits
    holds neither. On SIGTERM and SIGINT every wait is answered at once. ``application`` sees no lifespan events:
    Django takes none. With ``housekeeping`` it also ends expired leases, as workers beside the database do: where all
    workers are remote, nobody else would.
    """
    server = Server(housekeeping=housekeeping)

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
    """The task service of one process: started with its first request, and again if there is one after its end."""

    def __init__(self, *, housekeeping: bool) -> None:
        self.running: Running | None = None
        self._has_housekeeping = housekeeping
        self._answering: set[Any] = set()
        self._hears_signals = False

    def _start(self) -> Running:
        """Make what belongs to this process: after the server has forked it."""
        if self.running is None:
            self.running = Running(housekeeping=self._has_housekeeping)
            if not self._hears_signals:
                self._hears_signals = True
                call_before((signal.SIGTERM, signal.SIGINT), self._stop)
        return self.running

    def _stop(self) -> None:
        if self.running is not None:
            self.running.stop_soon()

    async def live(self, receive: Receive, send: Send) -> None:
        """Start and stop with the server process."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _close(self) -> None:
        if self.running is None:
            return
        try:
            self.running.stop()
            until = time.monotonic() + CLOSE_SECONDS
            if self._answering:
                await asyncio.wait(self._answering, timeout=CLOSE_SECONDS)
            await self.running.close(max(0.0, until - time.monotonic()))
        finally:
            self.running = None

    async def answer(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request; whatever happens, with a typed reply."""
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
        is_body_left = has_body(headers)
        try:
            running = self._start()
            path = _path(scope)[len(PREFIX) :]
            call = running.call(read_head(scope["method"], path, scope["query_string"].decode("latin-1"), headers))
            body = await running.take_body(call, receive)
            is_body_left = False
            reply = await running.reply(call, body, receive)
        except Gone:
            return
        except Exception as error:
            reply = explain(error, request_id=request_id, method=scope["method"], path=scope["path"])
        if is_body_left and (reply.status == 408 or not await drop(headers, receive)):
            # What is left of a body that was refused would be read as the next request.
            reply = replace(reply, headers=(*reply.headers, ("Connection", "close")))
        await _send(finish(reply, request_id), send, has_content=scope["method"] != "HEAD")
        logger.debug(
            "request method=%s path=%s status=%s request_id=%s seconds=%.4f",
            *(scope["method"], ascii(scope["path"]), reply.status, request_id, time.monotonic() - began),
        )


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
