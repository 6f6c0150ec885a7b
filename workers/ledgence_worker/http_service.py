"""The task service over HTTP: the port that workers know, for machines that do not see the database."""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from ledgence_worker import limits, wire
from ledgence_worker.bodies import (
    AcquireBody,
    Done,
    Drained,
    NewSessionBody,
    OwnersBody,
    RenewalAnswers,
    SettledAnswers,
    SettlementsBody,
)
from ledgence_worker.errors import Unavailable
from ledgence_worker.http_connection import Connection, parse_address
from ledgence_worker.http_replies import API_PATH, headers_of, read_answer
from ledgence_worker.protocol import (
    Acquire,
    Acquired,
    OpenSession,
    Owner,
    Renewal,
    Session,
    Settled,
    Settlement,
)

#: What the service may take to answer, beside a wait.
ANSWER_SECONDS: Final = 10.0
#: 32 assignments of 1 MiB each, which as text in JSON may take twice that.
REPLY_BYTES: Final = 72 * 1024 * 1024


class HttpTaskService:
    """Implements protocol.TaskService. Each calling thread has a connection of its own.

    Whatever is not the service's own whole answer (a proxy's page, a truncated body, a redirect, silence) is
    Unavailable: whether the command was carried out is unknown, and repeating it unchanged is safe. Raises InvalidInput
    for a URL or token that cannot be sent.
    """

    def __init__(self, url: str, token: str) -> None:
        self._address = parse_address(url)
        self._headers = headers_of(token, user_agent="ledgence-worker")
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: list[Connection] = []
        self._interrupted = threading.Event()
        self._waiting: Connection | None = None

    def open_session(self, command: OpenSession) -> Session:
        body = NewSessionBody(
            name=command.name,
            host=command.host,
            pid=command.pid,
            version=command.version,
            concurrency=command.concurrency,
            queues=command.queues,
            exclude_queues=command.exclude_queues,
            catalogue=command.catalogue,
        )
        session: Session = self._call("PUT", command.session_id, "", body, Session)
        return session

    def extend_session(self, session_id: UUID) -> Session:
        session: Session = self._call("POST", session_id, "/extend", None, Session)
        return session

    def close_session(self, session_id: UUID) -> None:
        self._call("POST", session_id, "/close", None, Done)

    def acquire(self, command: Acquire) -> Acquired:
        body = AcquireBody(
            channel=command.channel,
            sequence=command.sequence,
            capacity=command.capacity,
            wait_seconds=command.wait_seconds,
            settlements=command.settlements,
        )
        requested_at = time.monotonic()
        reply: Acquired
        if command.wait_seconds and not self._interrupted.is_set():
            try:
                with self._lock:
                    self._waiting = self._connection()
                reply = self._call("POST", command.session_id, "/acquire", body, Acquired, wait=command.wait_seconds)
                return reply
            except Unavailable:
                if not self._interrupted.is_set():
                    raise
            finally:
                with self._lock:
                    self._waiting = None
        # The worker stops: the same command without the wait tells what became of it.
        again_at = time.monotonic()
        reply = self._call("POST", command.session_id, "/acquire", replace(body, wait_seconds=0.0), Acquired)
        return replace(reply, held_seconds=reply.held_seconds + again_at - requested_at)

    def settle(self, session_id: UUID, settlements: Sequence[Settlement]) -> list[Settled]:
        body = SettlementsBody(settlements=tuple(settlements))
        return list(self._call("POST", session_id, "/settle", body, SettledAnswers).settled)

    def release(self, session_id: UUID, owners: Sequence[Owner]) -> list[Settled]:
        body = OwnersBody(owners=tuple(owners))
        return list(self._call("POST", session_id, "/release", body, SettledAnswers).settled)

    def renew(self, session_id: UUID, owners: Sequence[Owner]) -> list[Renewal]:
        body = OwnersBody(owners=tuple(owners))
        return list(self._call("POST", session_id, "/renew", body, RenewalAnswers).renewals)

    def is_drained(self, session_id: UUID) -> bool:
        return bool(self._call("GET", session_id, "/drained", None, Drained).is_drained)

    def interrupt(self) -> None:
        self._interrupted.set()
        with self._lock:
            if self._waiting is not None:
                self._waiting.interrupt()

    def close(self) -> None:
        with self._lock:
            for connection in self._connections:
                connection.close()

    def _call(self, method: str, session_id: UUID, path: str, body: Any, kind: Any, *, wait: float = 0.0) -> Any:
        """Send one command and read its reply of type ``kind``. Raises the service's errors, and Unavailable."""
        headers = dict(self._headers)
        content = None
        if body is not None:
            content = wire.encode(body)
            headers["Content-Type"] = "application/json"
        answer = self._connection().exchange(
            method, f"{API_PATH}/sessions/{session_id}{path}", headers, content, ANSWER_SECONDS + wait
        )
        return read_answer(answer, kind, limit=REPLY_BYTES, depth=limits.JSON_DEPTH)

    def _connection(self) -> Connection:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = Connection(self._address, reply_bytes=REPLY_BYTES)
            self._connections.append(connection)
        return connection
