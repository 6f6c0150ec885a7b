"""The bodies of the task service's HTTP requests and replies, where the protocol's own words are not enough.

Shared by both sides: the service reads requests and writes replies of these types, a client the other way round.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ledgence_worker.claims import Dispatch, RefusedMessage
from ledgence_worker.programs import UNSET, Backoff, Unset
from ledgence_worker.protocol import CatalogueEntry, Owner, Renewal, Settled, Settlement


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTaskBody:
    """A task to submit. What is left out comes from the service's settings; tenant and namespace from the token."""

    program: str
    version: str
    #: Any JSON.
    data: Any = None
    queue: str | None = None
    #: A repeat returns the first task; other content under it is a conflict.
    idempotency_key: str | None = None
    correlation_key: str | None = None
    #: -100 to 100, higher first.
    priority: int = 0
    run_after: datetime | None = None
    #: Counting the first.
    max_attempts: int | Unset = UNSET
    #: Seconds of each attempt; null is unlimited.
    timeout: float | None | Unset = UNSET
    backoff: Backoff | Unset = UNSET
    #: Outcomes and dotted names of exception classes.
    retry_on: tuple[str, ...] | Unset = UNSET
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTasksBody:
    """Tasks to submit, all or none."""

    tasks: tuple[NewTaskBody, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A task that exists now. ``is_new`` is false when the idempotency key had been used for it before."""

    id: UUID
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedTasks:
    """The tasks of a batch, in its order."""

    tasks: tuple[Submitted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """A task as it is now. ``state``: queued, active, succeeded, failed or cancelled."""

    id: UUID
    state: str
    queue: str
    program: str
    version: str
    priority: int
    submitted_at: datetime
    finished_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    idempotency_key: str | None = None
    correlation_key: str | None = None
    copy_of: UUID | None = None
    #: What requeue expects; it grows with each end and each requeue.
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """Tasks, newest first. ``next_cursor`` is for the next page; null after the last one. A page may be short."""

    tasks: tuple[TaskStatus, ...]
    next_cursor: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """A task's state, its result once it has succeeded, and its last error if it has not."""

    id: UUID
    state: str
    #: Present exactly when it succeeded.
    result: Any | Unset = UNSET
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStatus:
    """One attempt of a task; ``outcome`` is null while it runs."""

    number: int
    cause: str
    outcome: str | None = None
    claimed_at: datetime | None = None
    finished_at: datetime | None = None
    #: What the worker saw: error, exit_status, output, seconds.
    report: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAttempts:
    """Attempts of a task, first to last. ``next_cursor`` is where the next page begins; null after the last one."""

    attempts: tuple[AttemptStatus, ...]
    next_cursor: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAnswer:
    """What became of a cancellation: cancelled, requested (it is active), or terminal (it was over before)."""

    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueBody:
    """Asks for a failed or cancelled task to become ready again, at the revision that was seen; replayed by its id."""

    action_id: UUID
    revision: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueAnswer:
    """What became of a requeue: requeued, moved_on (another revision), not_terminal or succeeded."""

    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSessionBody:
    """Opens the session of one worker process under the id of its address; see protocol.OpenSession."""

    name: str
    host: str
    pid: int
    version: str
    concurrency: int
    queues: tuple[str, ...] = ()
    exclude_queues: tuple[str, ...] = ()
    catalogue: tuple[CatalogueEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquireBody:
    """Settles and asks for work on a channel; see protocol.Acquire. ``wait_seconds``: 0 to 20."""

    channel: int
    sequence: int
    capacity: int
    wait_seconds: float = 0.0
    settlements: tuple[Settlement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimBody:
    """Asks for exactly the work that messages name; see claims.Claim."""

    channel: int
    sequence: int
    dispatches: tuple[Dispatch, ...]
    authorize: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineBody:
    """Messages of a queue's destination that can never be claimed, to be recorded before they are acknowledged."""

    queue: str
    messages: tuple[RefusedMessage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementsBody:
    """Ends of attempts to settle."""

    settlements: tuple[Settlement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnersBody:
    """Owners of leases, to renew, authorize or release."""

    owners: tuple[Owner, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledAnswers:
    """One answer for each settlement or owner, in order."""

    settled: tuple[Settled, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewalAnswers:
    """One answer for each owner, in order."""

    renewals: tuple[Renewal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationAnswer:
    """Whether user code may start; ``timeout_seconds`` is what is left of its time (null: unlimited)."""

    task_id: UUID
    number: int
    is_granted: bool
    timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationAnswers:
    """One answer for each owner, in order."""

    authorizations: tuple[AuthorizationAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """Whether nothing is queued or leased in the session's queues that its catalogue could run."""

    is_drained: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether the service is well, and if not, why."""

    status: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Nothing more to say: it is done."""
