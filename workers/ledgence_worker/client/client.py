"""The client for applications that are not asynchronous."""

import os
import ssl
import time
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Final, Self, Unpack
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
from ledgence_worker.client.call import REPLY_BYTES, Call, Page
from ledgence_worker.client.commands import TaskFilter, TaskOptions
from ledgence_worker.client.results import value_of
from ledgence_worker.client.server import check_proxy, check_server
from ledgence_worker.client.talk import Manner, Sending, Talk, converse, wait_for_end
from ledgence_worker.errors import Unavailable
from ledgence_worker.http_connection import Answer, Connection
from ledgence_worker.http_replies import API_PATH, JSON, headers_of

TIMEOUT_SECONDS: Final = 30.0
TRIES: Final = 8
USER_AGENT: Final = "ledgence-client"


class Client:
    """Submits tasks to a task service and follows them. Safe on any thread; a context manager that closes it.

    A command whose answer is lost, or is not the service's own, is sent again: at most ``tries`` times, within
    ``timeout`` seconds in all, beside what a large body takes at 100 kB/s. That never doubles work, since every command
    carries an identity by which the service knows it again. Then Unavailable is raised: what became of it is unknown.
    Every other error says what the service decided. It follows no redirects, and uses no proxy but a named one
    (``proxy="http://proxy.example.com:3128"``, for https alone).

    ``ssl_context`` is for a certificate authority of your own. Raises InvalidInput for a URL or token that cannot be
    used, and for http:// to another machine without ``allow_plaintext``.
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
        self._proxy = check_proxy(proxy, self._address)
        self._headers = headers_of(token, user_agent=USER_AGENT)
        self._manner = Manner(timeout=timeout, tries=tries)
        # Made once: reading the authorities takes longer than a request.
        self._context = (ssl_context or ssl.create_default_context()) if self._address.is_secure else None
        self._idle: deque[Connection] = deque()
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"<Client {self._address.host}:{self._address.port}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            self._idle.pop().close()

    # Any: whatever JSON the program takes.
    def submit(self, program: str, data: Any = None, *, version: str, **options: Unpack[TaskOptions]) -> Submitted:
        """Submit one task; the options are those of TaskOptions. ``data`` is strict JSON, at most 1 MiB, 64 deep.

        Without an ``idempotency_key`` the client makes one, so that its own repeats find the first task. To repeat
        it after Unavailable, or after a crash, give a key of your own. Raises InvalidInput, Conflict, Forbidden.
        """
        return self._carry_out(commands.submit(program, version, data, options))

    def submit_many(self, tasks: Iterable[NewTaskBody]) -> tuple[Submitted, ...]:
        """Submit up to 1,000 tasks in one request of at most 4 MiB, all or none; answered in order, as by submit()."""
        return self._carry_out(commands.submit_many(tasks))

    def get(self, task_id: UUID | str) -> TaskStatus:
        """Return how a task stands. Raises NotFound."""
        return self._carry_out(commands.get(task_id))

    # Any: whatever JSON the program returned.
    def result(self, task_id: UUID | str, *, raw: bool = False) -> Any:
        """Return what the program returned; ``raw`` returns its JSON text as it is stored.

        Raises NotFinished, TaskFailed (the task ended failed or cancelled), NotFound.
        """
        return value_of(self._carry_out(commands.result(task_id, raw=raw)))

    def wait(self, task_id: UUID | str, timeout: float, *, raw: bool = False) -> Any:
        """Wait up to ``timeout`` seconds for the end, and return the result as result() does.

        An outage of the service is waited out. Raises NotFinished after the time-out, and Unavailable if how the task
        stands could then not be learnt. The last answer may take half of the client's own time-out longer.
        """
        return self._have(wait_for_end(task_id, timeout, self._manner, raw=raw))

    def attempts(self, task_id: UUID | str) -> Iterator[AttemptStatus]:
        """Iterate over the attempts of a task, first to last; each page is asked for when it is needed."""
        return self._turn_pages(commands.attempts(task_id))

    def list(self, **only: Unpack[TaskFilter]) -> Iterator[TaskStatus]:
        """Iterate over tasks, newest first; each page of up to 100 is asked for when it is needed."""
        return self._turn_pages(commands.list_tasks(only))

    def cancel(self, task_id: UUID | str) -> CancelAnswer:
        """Cancel a task: at once while it is queued, by request while it is active.

        "terminal" means that it was over already, perhaps by a try of this same call whose answer was lost.
        """
        return self._carry_out(commands.cancel(task_id))

    def requeue(
        self, task_id: UUID | str, *, revision: int, reason: str, action_id: UUID | None = None
    ) -> RequeueAnswer:
        """Make a failed or cancelled task ready again, if it is still at the ``revision`` that get() told.

        Recorded with the token's public id and name, and ``reason``. The answer is replayed by ``action_id``, which the
        client makes if none is given.
        """
        return self._carry_out(commands.requeue(task_id, revision=revision, reason=reason, action_id=action_id))

    def _carry_out[T](self, call: Call[T]) -> T:
        return self._have(converse(call, self._manner))

    def _turn_pages[T](self, call: Call[Page[T]] | None) -> Iterator[T]:
        while call is not None:
            page = self._carry_out(call)
            yield from page.items
            call = page.next

    def _have[T](self, talk: Talk[T]) -> T:
        try:
            sending = next(talk)
            while True:
                if sending.pause_seconds:
                    time.sleep(sending.pause_seconds)
                sending = talk.send(self._exchange(sending))
        except StopIteration as end:
            value: T = end.value
            return value

    def _exchange(self, sending: Sending) -> Answer | Unavailable:
        request = sending.request
        headers = self._headers if request.body is None else self._headers | {"Content-Type": JSON}
        connection = self._connection()
        try:
            answer = connection.exchange(
                request.method, API_PATH + request.path, headers, request.body, sending.seconds
            )
        except Unavailable as doubt:
            # It has closed the connection, which opens again with its next request.
            self._idle.append(connection)
            return doubt
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return answer

    def _connection(self) -> Connection:
        if self._process != os.getpid():
            # After a fork two processes would read each other's answers.
            self._idle, self._process = deque(), os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            return Connection(self._address, reply_bytes=REPLY_BYTES, context=self._context, proxy=self._proxy)
