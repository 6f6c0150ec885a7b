"""The task service in process: the port that workers know, over the operations on this database."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from uuid import UUID

from ledgence import sql
from ledgence.calls import calling, told_if_not_migrated
from ledgence.conf import get_settings
from ledgence.listener import Listener
from ledgence.operations.acquire import acquire
from ledgence.operations.claim import claim
from ledgence.operations.due import DueSearch
from ledgence.operations.quarantine import quarantine
from ledgence.operations.renew import renew
from ledgence.operations.sessions import close_session, extend_session, open_session
from ledgence.operations.settle import release, settle
from ledgence.recent import Recent
from ledgence.served_queues import ServedQueues
from ledgence.worker_connections import Connections, WorkerConnections
from ledgence_worker.claims import Claim, Claimed, RefusedMessage
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

# The probe behind the hints, with jitter so that processes do not ask in step.
POLL_SECONDS = (0.8, 1.0)
# How many channels' searches are remembered: more than a worker has; a server forgets those that were idle the longest.
SEARCHES_MAX = 4096


class DatabaseTaskService:
    """Implements ledgence_worker.task_service.TaskService. Each calling thread has a connection of its own.

    A failure of the database is Unavailable: whether the command was carried out is unknown, and repeating it
    unchanged is safe. A waiting acquire holds no connection busy and no transaction open, but its thread; who does not
    ``listen`` uses try_acquire() and waits in a way of its own.
    """

    def __init__(
        self,
        using: str,
        *,
        on_cancel: Callable[[], None] = lambda: None,
        listen: bool = True,
        connections: Connections | None = None,
    ) -> None:
        self.using = using
        self._connections: Connections = connections or WorkerConnections(using)
        #: Called by the listener, at a hint that owners of leases should renew at once.
        self.on_cancel = on_cancel
        self._queues = ServedQueues(using)
        self._listener: Listener | None = None
        if listen and get_settings().hints:
            self.listen(self._queues.concern)
        self._interrupted = threading.Event()
        self._searches: Recent[tuple[UUID, int], DueSearch] = Recent(SEARCHES_MAX)

    def listen(self, concerns: Callable[[set[str]], bool]) -> None:
        """Begin to listen for hints; ``concerns`` is asked on the listener's thread whether one ends a wait here."""
        self._listener = Listener(self._connections, concerns=concerns, on_cancel=lambda: self.on_cancel())

    def open_session(self, command: OpenSession) -> Session:
        with self.calling("session"), told_if_not_migrated(self.using):
            return open_session(command, using=self.using)

    def extend_session(self, session_id: UUID) -> Session:
        with self.calling("session"):
            return extend_session(session_id, using=self.using)

    def close_session(self, session_id: UUID) -> None:
        with self.calling("session"):
            close_session(session_id, using=self.using)

    def acquire(self, command: Acquire) -> Acquired:
        received = time.monotonic()
        deadline = received + command.wait_seconds
        while True:
            heard = self._listener.count if self._listener else 0
            now = time.monotonic()
            reply = self.try_acquire(command, is_last=now >= deadline or self._interrupted.is_set())
            if reply is not None:
                return replace(reply, held_seconds=now - received)
            self._wait_for_work(command, heard, deadline)

    def try_acquire(self, command: Acquire, *, is_last: bool) -> Acquired | None:
        """Acquire without a wait. Where nothing is due, the last try records that; others answer None."""
        search = self._search(command)
        # Named as the thread that sends it: the settler's first command is one of these.
        with self.calling("settle" if command.settlements else "acquire"):
            return acquire(command, using=self.using, search=search, record_empty=is_last or bool(command.settlements))

    def _search(self, command: Acquire) -> DueSearch:
        return self._searches.get_or_make((command.session_id, command.channel), DueSearch)

    def _wait_for_work(self, command: Acquire, heard: int, deadline: float) -> None:
        """Return at a hint, at the deadline, when interrupted, or when a probe finds due work."""
        session_id, search = command.session_id, self._search(command)
        with self.calling("acquire"):
            self._queues.refresh(session_id)
        while not self._interrupted.is_set():
            poll = min(random.uniform(*POLL_SECONDS), deadline - time.monotonic())  # noqa: S311 - jitter is no secret
            if poll <= 0 or self._pause(heard, poll):
                return
            with self.calling("acquire"):
                if search.find(session_id, 1, using=self.using):
                    return

    def _pause(self, heard: int, seconds: float) -> bool:
        if self._listener:
            return self._listener.wait_past(heard, seconds)
        return self._interrupted.wait(seconds)

    def claim(self, command: Claim) -> Claimed:
        with self.calling("claim"):
            return claim(command, using=self.using)

    def quarantine(self, session_id: UUID, queue: str, messages: Sequence[RefusedMessage]) -> None:
        with self.calling("claim"):
            quarantine(session_id, queue, messages, using=self.using)

    def settle(self, session_id: UUID, settlements: Sequence[Settlement]) -> list[Settled]:
        with self.calling("settle"):
            return settle(session_id, settlements, using=self.using)

    def release(self, session_id: UUID, owners: Sequence[Owner]) -> list[Settled]:
        with self.calling("settle"):
            return release(session_id, owners, using=self.using)

    def renew(self, session_id: UUID, owners: Sequence[Owner]) -> list[Renewal]:
        with self.calling("renew"):
            return renew(session_id, owners, using=self.using)

    def is_drained(self, session_id: UUID) -> bool:
        with self.calling("acquire"):
            return bool(sql.run("is_drained", self.using, {"session": session_id})[0][0])

    def interrupt(self) -> None:
        self._interrupted.set()
        if self._listener:
            self._listener.stir()

    def close(self) -> None:
        if self._listener:
            self._listener.close()
        self._connections.close()

    def calling(self, role: str) -> AbstractContextManager[None]:
        """Run one call on the thread's own connection, and tell a failure of the database as Unavailable."""
        return calling(self._connections, role)
