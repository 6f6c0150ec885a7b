"""The words that a worker and the task service share: commands and replies.

Every command names its identity (session, channel and sequence, or the owner of a lease), so that a caller that lost
a reply repeats the same command and gets the same answer.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class Outcome(StrEnum):
    """How an attempt ended."""

    # The program returned a valid result.
    SUCCEEDED = "succeeded"
    # The program raised, or its result is not valid.
    FAILED = "failed"
    # The program was stopped because its time was over.
    TIMED_OUT = "timed_out"
    # The process ended while the program ran.
    CRASHED = "crashed"
    # The lease expired; nobody knows what became of the program.
    LOST = "lost"
    # A draining worker gave the work back. Not charged.
    INTERRUPTED = "interrupted"
    # Cancelled on request.
    CANCELLED = "cancelled"
    # The workflow waits for a timer, an event or a child. Not charged.
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """A program that a worker can run. The entry point is "module:qualified.name" and never changes under a version."""

    name: str
    version: str
    entry_point: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """Opens the session of one worker process. Repeating it with the same session_id returns the same session."""

    session_id: UUID
    name: str
    host: str
    pid: int
    version: str
    concurrency: int
    tenant: str
    namespace: str
    #: Names of the queues to serve; empty means every queue, except those excluded.
    queues: tuple[str, ...] = ()
    exclude_queues: tuple[str, ...] = ()
    catalogue: tuple[CatalogueEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalQueue:
    """A queue that hands out its work through a broker. ``destination``: the physical queue's address in its route."""

    name: str
    destination: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What the task service grants to a worker process: the timings it must keep, in seconds, and its scope.

    ``external_queues`` are those of the queues it serves that hand out their work through a broker. With
    ``drain_requested`` the session gets no more work: finish what runs, close it and end.
    """

    session_id: UUID
    lease_seconds: float
    cleanup_seconds: float
    remaining_seconds: float
    tenant: str
    namespace: str
    external_queues: tuple[ExternalQueue, ...] = ()
    drain_requested: bool = False

    @property
    def destinations(self) -> dict[str, str]:
        """The addresses of the physical queues, by the names of the external queues."""
        return {queue.name: queue.destination for queue in self.external_queues}


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The proof of authority over one attempt, presented together with the session that holds it."""

    task_id: UUID
    number: int
    token: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierAttempt:
    """An earlier attempt of the same task, as the program may see it. Times are ISO 8601 with offset."""

    number: int
    cause: str
    outcome: str
    finished_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """An attempt that this session owns: the lease, and what to run.

    ``data`` is the application's JSON, byte for byte. ``remaining_seconds`` is what was left of the lease when the
    reply was made; ``timeout_seconds`` what was left of the execution time (None: unlimited).
    """

    task_id: UUID
    number: int
    token: UUID
    cause: str
    tenant: str
    namespace: str
    queue: str
    program: str
    version: str
    data: str
    claimed_at: datetime
    remaining_seconds: float
    timeout_seconds: float | None
    traceparent: str | None = None
    earlier: tuple[EarlierAttempt, ...] = ()

    @property
    def owner(self) -> Owner:
        """The proof of its authority."""
        return Owner(task_id=self.task_id, number=self.number, token=self.token)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """What a program raised. ``classes`` holds the dotted names of the exception's class and its bases."""

    classes: tuple[str, ...]
    message: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a worker saw of an attempt's end. ``seconds`` is the run time, ``exit_status`` -N for signal N."""

    error: ErrorReport | None = None
    exit_status: int | None = None
    output: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The end of one attempt, told by its owner. ``result`` is JSON text, present exactly when it succeeded."""

    task_id: UUID
    number: int
    token: UUID
    outcome: Outcome
    result: str | None = None
    report: Report = field(default_factory=Report)


class SettleStatus(StrEnum):
    """The task service's answer to a settlement."""

    # This end stands (now, or since an identical settlement before).
    ACCEPTED = "accepted"
    # Another end was accepted before.
    CONFLICT = "conflict"
    # The lease was over: kept as late evidence, nothing changed.
    OWNERSHIP_LOST = "ownership_lost"
    # No such attempt of this session.
    NOT_FOUND = "not_found"
    # A lock was not free within the lock time-out; nothing was decided, send it again.
    BUSY = "busy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """One settlement's answer. ``consequence`` is "retry", or the task's outcome; empty unless accepted."""

    task_id: UUID
    number: int
    status: SettleStatus
    consequence: str = ""


class RenewStatus(StrEnum):
    """The task service's answer to a renewal."""

    # The lease lasts longer, as far as its bound allows.
    RENEWED = "renewed"
    # Somebody's transaction holds the lease; nothing was decided, ask again at once.
    BUSY = "busy"
    # The lease is over, or belongs to another owner.
    OWNERSHIP_LOST = "ownership_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """One lease's answer. ``remaining_seconds`` counts from the reply; 0 unless renewed."""

    task_id: UUID
    number: int
    status: RenewStatus
    remaining_seconds: float = 0.0
    cancel_requested: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquire:
    """Asks for up to ``capacity`` assignments on a channel, and settles ended attempts in the same commit.

    A channel has one command in flight; its sequences count 1, 2, 3. Repeating the last sequence returns the recorded
    assignments, whatever the capacity. With settlements there is no wait: the reply follows the commit.
    """

    session_id: UUID
    channel: int
    sequence: int
    capacity: int
    wait_seconds: float = 0.0
    settlements: tuple[Settlement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquired:
    """The reply to Acquire. ``held_seconds``: how long the service held the request before it took the leases.

    With ``drain_requested`` the session gets no more work: finish what runs, close it and end.
    """

    assignments: tuple[Assignment, ...] = ()
    #: (task, number) of recorded assignments whose authority has ended since: their slots are free, do not run them.
    lost: tuple[tuple[UUID, int], ...] = ()
    settled: tuple[Settled, ...] = ()
    held_seconds: float = 0.0
    drain_requested: bool = False
