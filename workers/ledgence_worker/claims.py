"""The words of the claim by name: a worker that received references from a broker asks for exactly that work."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from ledgence_worker.protocol import Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """The exact work that a message names: one generation of one task."""

    task_id: UUID
    generation: int


class ClaimStatus(StrEnum):
    """The answer to one dispatch. Each of them allows the message to be acknowledged, except not_found."""

    # The attempt is this session's.
    CLAIMED = "claimed"
    # An attempt of this generation holds a lease.
    ALREADY_HANDED_OFF = "already_handed_off"
    # The generation is over, or the task is terminal.
    TERMINAL_OR_SUPERSEDED = "terminal_or_superseded"
    # Not due yet, its queue is paused, or the session does not know its program or is to drain: its intent stands and
    # will be published again.
    DEFERRED = "deferred"
    # No such task in the session's tenant and namespace, or a generation that was never issued.
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Asks for exactly the named generations on a channel, whose sequences count 1, 2, 3.

    With ``authorize`` the claim permits user code to start, in the same commit; otherwise authorize before it starts.
    Repeating the last sequence with the same dispatches returns what was claimed, and explains the rest anew.
    """

    session_id: UUID
    channel: int
    sequence: int
    dispatches: tuple[Dispatch, ...]
    authorize: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAnswer:
    """One dispatch's answer."""

    task_id: UUID
    generation: int
    status: ClaimStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The reply to Claim: one answer for each dispatch, and the assignments of those that were claimed.

    ``lost``: (task, number) of recorded assignments whose authority has ended since: their slots are free, do not run
    them. ``held_seconds``: how long the service held the request before it took the leases. With ``drain_requested``
    the session gets no more work: finish what runs, close it and end.
    """

    answers: tuple[ClaimAnswer, ...]
    assignments: tuple[Assignment, ...] = ()
    lost: tuple[tuple[UUID, int], ...] = ()
    held_seconds: float = 0.0
    drain_requested: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedMessage:
    """A message that cannot be claimed, as it is recorded before it is acknowledged.

    ``message_id`` is the broker's; ``reason`` one word of delivery.reference.Malformed's, or not_found. ``body`` is its
    beginning, as text; what is no text in it is escaped.
    """

    message_id: str
    reason: str
    detail: str
    body: str
