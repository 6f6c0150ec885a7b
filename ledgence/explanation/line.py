"""The parts of an explanation: lines, each with its code, what to do about it, and the row that it is about."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from ledgence.models import State


class Code(StrEnum):
    """What a line says; docs/operations.md lists them."""

    # The task is terminal.
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    # It failed, or is tried again: what came of its attempts.
    ENDED_ALIKE = "ended_alike"
    REPORTED = "reported"
    # It is queued, and something holds it up, or explains why it waits.
    NOT_DUE = "not_due"
    RETRY = "retry"
    REQUEUED = "requeued"
    PAUSED = "paused"
    NO_SESSION = "no_session"
    NO_PROGRAM = "no_program"
    ALL_SILENT = "all_silent"
    ALL_DRAINING = "all_draining"
    ALL_BUSY = "all_busy"
    AHEAD = "ahead"
    READY = "ready"
    UNTAKEN = "untaken"
    HINTS_OFF = "hints_off"
    OLD_SNAPSHOT = "old_snapshot"
    # It is queued in an external queue: how its announcement goes.
    NO_PUBLISHER = "no_publisher"
    PUBLISHER_FAILS = "publisher_fails"
    UNANNOUNCED = "unannounced"
    BEING_SENT = "being_sent"
    REFUSED = "refused"
    UNCONFIRMED = "unconfirmed"
    ANNOUNCED = "announced"
    DEFERRED = "deferred"
    # It is active.
    HELD = "held"
    UNAUTHORIZED = "unauthorized"
    TIME_OUT = "time_out"
    LEASE_LIVE = "lease_live"
    NOT_RENEWED = "not_renewed"
    LEASE_EXPIRED = "lease_expired"
    NO_HOUSEKEEPING = "no_housekeeping"
    HOLDER_SILENT = "holder_silent"
    HOLDER_ENDED = "holder_ended"
    CANCEL_REQUESTED = "cancel_requested"
    # It breaks an invariant of the ledger.
    NOWHERE = "nowhere"


class Kind(StrEnum):
    """What a line is about."""

    TASK = "task"
    ATTEMPT = "attempt"
    QUEUE = "queue"
    INTENT = "intent"
    LEASE = "lease"
    SESSION = "session"
    PUBLISHER = "publisher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A row, by its kind and id; without an id it is the list of them. ``label`` names it to people."""

    kind: Kind
    id: str | None
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One fact. ``advice`` says what to do, and is empty where nothing is to be done."""

    code: Code
    #: Whether this alone keeps the task from running.
    is_blocking: bool
    text: str
    advice: str = ""
    target: Target | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a task is not running, or who runs it: facts in the order in which they matter."""

    task_id: UUID
    revision: int
    #: None: it breaks the ledger's first invariant.
    state: State | None
    lines: tuple[Line, ...]
