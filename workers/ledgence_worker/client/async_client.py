"""The client for asyncio: the same commands as Client, over httpx."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Any, Self, Unpack
from uuid import UUID

from ledgence_worker.bodies import (
    AttemptStatus,
    CancelAnswer,
    NewTaskBody,
    RequeueAnswer,
    Submitted,
    TaskStatus,
)
from ledgence_worker.client import commands
from ledgence_worker.client.call import REPLY_BYTES, Call, Page, Request
from ledgence_worker.client.client import TIMEOUT_SECONDS, TRIES, USER_AGENT
from ledgence_worker.client.commands import TaskFilter, TaskOptions
from ledgence_worker.client.results import value_of
from ledgence_worker.client.server import check_proxy, check_server
from ledgence_worker.client.talk import Manner, Sending, Talk, converse, wait_for_end
from ledgence_worker.errors import Unavailable
from ledgence_worker.http_connection import CONNECT_SECONDS, Answer
from ledgence_worker.http_replies import API_PATH, JSON, headers_of
from ledgence_worker.http_socket import SLOWEST

try:
    import httpx
except ModuleNotFoundError as error:
    raise ImportError('AsyncClient needs httpx: pip install "django-ledgence-worker[http]"') from error


class AsyncClient:
    """Submits tasks to a task service and follows them, as Client does, with the same arguments and guarantees.

    Belongs to one event loop; an asynchronous context manager that closes it. A task of asyncio that is cancelled while
    it sends does not take back what it sent.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = TIMEOUT_SECONDS,
        tries: int = TRIES,
        ssl_context: ssl.SSLContext | None = None,
        proxy: str | None = None,
        allow_plaintext: bool = False,
    ) -> None:
        self._address = check_server(url, allow_plaintext=allow_plaintext)
        check_proxy(proxy, self._address)
        self._manner = Manner(timeout=timeout, tries=tries)
        self._http = httpx.AsyncClient(
            base_url=url.rstrip("/") + API_PATH,
            headers=headers_of(token, user_agent=USER_AGENT) | {"Accept-Encoding": "identity"},
            verify=ssl_context or ssl.create_default_context(),
            # Each exchange has a deadline as a whole; these are for each read alone.
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None),
            follow_redirects=False,
            trust_env=False,
            proxy=proxy,
        )

    def __repr__(self) -> str:
        return f"<AsyncClient {self._address.host}:{self._address.port}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    # Any: whatever JSON the program takes.
    async def submit(
        self, program: str, data: Any = None, *, version: str, **options: Unpack[TaskOptions]
    ) -> Submitted:
        """Submit one task, as Client.submit() does."""
        return await self._carry_out(commands.submit(program, version, data, options))

    async def submit_many(self, tasks: Iterable[NewTaskBody]) -> tuple[Submitted, ...]:
        """Submit many tasks, all or none, as Client.submit_many() does."""
        return await self._carry_out(commands.submit_many(tasks))

    async def get(self, task_id: UUID | str) -> TaskStatus:
        """Return how a task stands, as Client.get() does."""
        return await self._carry_out(commands.get(task_id))

    # Any: whatever JSON the program returned.
    async def result(self, task_id: UUID | str, *, raw: bool = False) -> Any:
        """Return what the program returned, as Client.result() does."""
        return value_of(await self._carry_out(commands.result(task_id, raw=raw)))

    async def wait(self, task_id: UUID | str, timeout: float, *, raw: bool = False) -> Any:  # noqa: ASYNC109
        """Wait for the end and return the result, as Client.wait() does."""
        return await self._have(wait_for_end(task_id, timeout, self._manner, raw=raw))

    def attempts(self, task_id: UUID | str) -> AsyncIterator[AttemptStatus]:
        """Iterate over the attempts of a task, as Client.attempts() does."""
        return self._turn_pages(commands.attempts(task_id))

    def list(self, **only: Unpack[TaskFilter]) -> AsyncIterator[TaskStatus]:
        """Iterate over tasks, as Client.list() does."""
        return self._turn_pages(commands.list_tasks(only))

    async def cancel(self, task_id: UUID | str) -> CancelAnswer:
        """Cancel a task, as Client.cancel() does."""
        return await self._carry_out(commands.cancel(task_id))

    async def requeue(
        self, task_id: UUID | str, *, revision: int, reason: str, action_id: UUID | None = None
    ) -> RequeueAnswer:
        """Make a failed or cancelled task ready again, as Client.requeue() does."""
        return await self._carry_out(commands.requeue(task_id, revision=revision, reason=reason, action_id=action_id))

    async def _carry_out[T](self, call: Call[T]) -> T:
        return await self._have(converse(call, self._manner))

    async def _turn_pages[T](self, call: Call[Page[T]] | None) -> AsyncIterator[T]:
        while call is not None:
            page = await self._carry_out(call)
            for item in page.items:
                yield item
            call = page.next

    async def _have[T](self, talk: Talk[T]) -> T:
        try:
            sending = next(talk)
            while True:
                if sending.pause_seconds:
                    await asyncio.sleep(sending.pause_seconds)
                sending = talk.send(await self._exchange(sending))
        except StopIteration as end:
            value: T = end.value
            return value

    async def _exchange(self, sending: Sending) -> Answer | Unavailable:
        request = sending.request
        try:
            async with asyncio.timeout(sending.seconds + len(request.body or b"") / SLOWEST):
                return await self._send(request)
        except (OSError, ValueError, httpx.HTTPError) as error:
            doubt = Unavailable(f"{request.method} {request.path} had no answer: {type(error).__name__}: {error}")
            doubt.__cause__ = error
            return doubt

    async def _send(self, request: Request) -> Answer:
        headers = None if request.body is None else {"Content-Type": JSON}
        async with self._http.stream(request.method, request.path, content=request.body, headers=headers) as response:
            parts = []
            size = 0
            async for part in response.aiter_raw():
                size += len(part)
                if size > REPLY_BYTES:
                    raise ValueError(f"the reply has more than {REPLY_BYTES} bytes")
                parts.append(part)
        told = response.headers
        content_type = told.get("Content-Type", "").partition(";")[0].strip().lower()
        return Answer(response.status_code, content_type, b"".join(parts), told.get("Retry-After"))
