"""The port of the authority: what a worker asks of the task service, in process or over HTTP."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

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


class TaskService(Protocol):
    """The port of the authority. Each method is one short transaction there, and may be called from any thread.

    Any method may raise Unavailable (repeat it unchanged), Busy, SessionExpired or InvalidInput.
    """

    def open_session(self, command: OpenSession) -> Session:
        """Open the session of a worker process, or return it again. Raises Conflict over a program's entry point."""
        ...

    def extend_session(self, session_id: UUID) -> Session:
        """Extend an open session to its full length from now; one that is over is never revived. Raises NotFound."""
        ...

    def close_session(self, session_id: UUID) -> None:
        """Close a session: it acquires nothing more, and its leases end by settlement or expiry. Replayed."""
        ...

    def acquire(self, command: Acquire) -> Acquired:
        """Settle ended attempts and take due work, in one commit; replayed by its sequence. Raises OutOfOrder."""
        ...

    def claim(self, command: Claim) -> Claimed:
        """Take exactly the work that messages name, in one commit; replayed by its sequence. Raises OutOfOrder."""
        ...

    def quarantine(self, session_id: UUID, queue: str, messages: Sequence[RefusedMessage]) -> None:
        """Record messages of a queue's destination that can never be claimed. Replayed by the broker's message id.

        They may be acknowledged once this returns. Raises NotFound for a queue that the session does not serve.
        """
        ...

    def settle(self, session_id: UUID, settlements: Sequence[Settlement]) -> list[Settled]:
        """Settle ended attempts and answer each, in order. Accepted once: the same settlement gets the same answer."""
        ...

    def release(self, session_id: UUID, owners: Sequence[Owner]) -> list[Settled]:
        """Give attempts back whose processes are gone: their next generations are ready at once, uncharged."""
        ...

    def renew(self, session_id: UUID, owners: Sequence[Owner]) -> list[Renewal]:
        """Extend live leases and answer each, in order. Never revives a lease and never waits for a lock."""
        ...

    def is_drained(self, session_id: UUID) -> bool:
        """Return whether nothing is queued or leased in the session's queues that its catalogue could run."""
        ...

    def interrupt(self) -> None:
        """Make every waiting acquire return at once, now and from here on: the worker stops."""
        ...

    def close(self) -> None:
        """Give back every connection. Called once, when all other calls have returned."""
        ...
