"""The task service over HTTP: the port that workers know, for machines that do not see the database."""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from ledgence_worker import limits, wire
from ledgence_worker.bodies import (
    AcquireBody,
    ClaimBody,
    Done,
    Drained,
    NewSessionBody,
    OwnersBody,
    QuarantineBody,
    RenewalAnswers,
    SettledAnswers,
    SettlementsBody,
)
from ledgence_worker.claims import Claim, Claimed, RefusedMessage
from ledgence_worker.errors import InvalidInput, Unavailable
from ledgence_worker.http_connection import Connection
from ledgence_worker.http_hints import hint_of
from ledgence_worker.http_replies import API_PATH, headers_of, is_overheard, read_answer, server_of, url_of
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

logger = logging.getLogger("ledgence_worker.http_service")

#: What the service may take to answer, beside a wait.
ANSWER_SECONDS: Final = 10.0
#: 32 assignments of 1 MiB each, which as text in JSON may take twice that.
REPLY_BYTES: Final = 72 * 1024 * 1024


class HttpTaskService:
    """Implements task_service.TaskService. Each calling thread has a connection of its own.

    Whatever is not the service's own whole answer (a proxy's page, a truncated body, a redirect, silence for longer
    than ``answer_seconds``, beside a wait) is Unavailable: whether the command was carried out is unknown, and
    repeating it unchanged is safe. Raises InvalidInput for a URL or token that cannot be sent.
    """

    def __init__(self, url: str, token: str, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        limits.check_range("answer_seconds", answer_seconds, 0.001, 3600)
        self._answer_seconds = answer_seconds
        self._renewal_seconds = answer_seconds
        self._address = server_of(url)
        if is_overheard(self._address):
            # Within one cluster that may be meant.
            logger.warning("the token travels in clear over a network server=http://%s", self._address.host)
        self._headers = headers_of(token, user_agent="ledgence-worker")
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: list[Connection] = []
        self._interrupted = threading.Event()
        self._waiting: Connection | None = None
        self._is_hinted = False

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
        try:
            session: Session = self._call("PUT", command.session_id, "", body, Session)
        except Unavailable as error:
            self._hint(error)
            raise
        logger.info("session opened server=%s session=%s", url_of(self._address), session.session_id)
        # One renewal that hangs, or the extension on the same thread, must leave time for another within the lease.
        self._renewal_seconds = min(self._answer_seconds, session.lease_seconds / 4)
        return session

    def _hint(self, error: Unavailable) -> None:
        """Tell once what may be wrong with the address: a mistyped one looks like a service that is away."""
        if not self._is_hinted and (hint := hint_of(error, self._address)):
            self._is_hinted = True
            logger.warning("no answer yet server=%s hint=%s", url_of(self._address), hint)

    def extend_session(self, session_id: UUID) -> Session:
        session: Session = self._call("POST", session_id, "/extend", None, Session, seconds=self._renewal_seconds)
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
        if self._may_wait(command):
            try:
                return self._acquire(command.session_id, body, command.wait_seconds)
            except Unavailable:
                if not self._interrupted.is_set():
                    raise
            finally:
                with self._lock:
                    self._waiting = None
        # While the worker stops, the same command without the wait: it tells what became of the one that waited.
        asked_at = time.monotonic()
        reply = self._acquire(command.session_id, replace(body, wait_seconds=0.0))
        return replace(reply, held_seconds=reply.held_seconds + asked_at - requested_at)

    def _may_wait(self, command: Acquire) -> bool:
        with self._lock:
            # Looked at with the lock held, so that interrupt() comes before this or finds what waits.
            if command.wait_seconds == 0 or self._interrupted.is_set():
                return False
            self._waiting = self._connection()
            return True

    def _acquire(self, session_id: UUID, body: AcquireBody, wait: float = 0.0) -> Acquired:
        for settlement in body.settlements:
            _check_result(settlement)
        seconds = self._answer_seconds + wait
        reply: Acquired = self._call("POST", session_id, "/acquire", body, Acquired, seconds=seconds)
        return reply

    def claim(self, command: Claim) -> Claimed:
        body = ClaimBody(
            channel=command.channel,
            sequence=command.sequence,
            dispatches=command.dispatches,
            authorize=command.authorize,
        )
        claimed: Claimed = self._call("POST", command.session_id, "/dispatch/claim", body, Claimed)
        return claimed

    def quarantine(self, session_id: UUID, queue: str, messages: Sequence[RefusedMessage]) -> None:
        body = QuarantineBody(queue=queue, messages=tuple(messages))
        self._call("POST", session_id, "/dispatch/quarantine", body, Done)

    def settle(self, session_id: UUID, settlements: Sequence[Settlement]) -> list[Settled]:
        for settlement in settlements:
            _check_result(settlement)
        body = SettlementsBody(settlements=tuple(settlements))
        return list(self._call("POST", session_id, "/settle", body, SettledAnswers).settled)

    def release(self, session_id: UUID, owners: Sequence[Owner]) -> list[Settled]:
        body = OwnersBody(owners=tuple(owners))
        return list(self._call("POST", session_id, "/release", body, SettledAnswers).settled)

    def renew(self, session_id: UUID, owners: Sequence[Owner]) -> list[Renewal]:
        body = OwnersBody(owners=tuple(owners))
        seconds = self._renewal_seconds
        return list(self._call("POST", session_id, "/renew", body, RenewalAnswers, seconds=seconds).renewals)

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

    def _call(
        self, method: str, session_id: UUID, path: str, body: Any, kind: Any, *, seconds: float | None = None
    ) -> Any:
        """Send one command and read its reply of type ``kind``. Raises the service's errors, and Unavailable."""
        headers = dict(self._headers)
        content = None
        if body is not None:
            content = _encode(body, f"{method} {path}")
            headers["Content-Type"] = "application/json"
        address = f"{API_PATH}/sessions/{session_id}{path}"
        answer = self._connection().exchange(
            method, address, headers, content, self._answer_seconds if seconds is None else seconds
        )
        return read_answer(answer, kind, limit=REPLY_BYTES, depth=limits.JSON_DEPTH)

    def _connection(self) -> Connection:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = Connection(self._address, reply_bytes=REPLY_BYTES)
            self._connections.append(connection)
        return connection


def _encode(body: object, what: str) -> bytes:
    """Return a request's body. Raises InvalidInput for what the service would refuse.

    It refuses a body that is too large before it has arrived, and whoever is still sending may not get to read that.
    """
    try:
        content = wire.encode(body)
    except ValueError as error:
        raise InvalidInput(f"{what}: the request, or a report in it, is not valid JSON: {error}.") from None
    most = limits.SETTLE_BYTES if isinstance(body, AcquireBody | SettlementsBody) else limits.COMMAND_BYTES
    if len(content) > most:
        raise InvalidInput(f"{what}: the request has {len(content)} bytes; at most {most} are accepted.")
    return content


def _check_result(settlement: Settlement) -> None:
    """Refuse a result that no document can hold. Of a report, what cannot be sent is replaced."""
    try:
        (settlement.result or "").encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"settle {settlement.task_id}.{settlement.number}: result holds half of a surrogate pair."
        ) from None
