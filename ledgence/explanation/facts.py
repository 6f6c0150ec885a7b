"""What the ledger knows of one task and of whoever could run it, as values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile
from uuid import UUID

from ledgence.conf import get_settings
from ledgence.models import State
from ledgence.reported import Reported, read_head
from ledgence.status import OpenSession, PublisherStatus

#: How long due work may wait for a worker that has a free slot, before that is remarkable.
UNTAKEN_AFTER = timedelta(seconds=10)
#: How many of the newest attempts are compared.
ENDINGS_MAX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """The task's terms, and its outcome."""

    id: UUID
    tenant: str
    namespace: str
    outcome: str | None
    finished_at: datetime | None
    revision: int
    max_attempts: int
    timeout_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """The task's queue."""

    id: int
    name: str
    mode: str
    destination: str | None
    paused_at: datetime | None
    paused_until: datetime | None
    paused_by: str
    pause_reason: str

    @property
    def is_external(self) -> bool:
        return self.mode == "external"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFacts:
    """The task's program."""

    id: int
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentFacts:
    """The generation that is queued."""

    generation: int
    cause: str
    charged: int
    priority: int
    available_at: datetime
    epoch: int
    publications: int
    first_published_at: datetime | None
    last_published_at: datetime | None
    next_publish_at: datetime | None
    #: Whether a publisher holds it for sending, until next_publish_at.
    is_held: bool
    confirmed_at: datetime | None
    refusals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFacts:
    """The authority that is held."""

    number: int
    charged: int
    expires_at: datetime
    bound_at: datetime | None
    cancel_requested_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderFacts:
    """The session that holds it."""

    id: UUID
    name: str
    host: str
    pid: int
    closed_at: datetime | None
    expires_at: datetime
    extended_at: datetime | None

    def __str__(self) -> str:
        return f"{self.name} ({self.host}:{self.pid})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """The last attempt."""

    number: int
    id: int
    outcome: str | None
    claimed_at: datetime | None
    authorized_at: datetime | None
    finished_at: datetime | None
    report_head: str | None
    #: Of the worker that ran it.
    host: str | None

    @property
    def reported(self) -> Reported:
        return read_head(self.report_head or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFacts:
    """The last thing that was not ordinary in the delivery of the generation that is queued."""

    kind: str
    happened_at: datetime
    detail: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that an explanation rests on. ``at`` is the database's clock."""

    at: datetime
    task: TaskFacts
    queue: QueueFacts
    program: ProgramFacts
    intent: IntentFacts | None = None
    event: EventFacts | None = None
    #: Of its queue: one that turns and succeeds, else one that turns, else the last that did.
    publisher: PublisherStatus | None = None
    lease: LeaseFacts | None = None
    holder: HolderFacts | None = None
    attempt: AttemptFacts | None = None
    #: How the newest attempts ended, at most ENDINGS_MAX, the last one first: outcome and head of the report.
    endings: Sequence[Sequence[str | None]] = ()
    #: Of a queued task: the open sessions of its tenant and namespace.
    sessions: Sequence[OpenSession] = ()
    #: How much due work of its queue comes before it; COUNT_CAP + 1 means more than the cap. None where its turn is not
    #: what it waits for: it is not due, or nobody is there to take it.
    ahead: int | None = None
    #: Process and age in seconds of the oldest snapshot, where searches for due work may be slow for it.
    old_snapshot: tuple[int, float] | None = None
    #: Of an active task: how long ago housekeeping has turned; None: nobody has ever run it.
    housekeeping_seconds: float | None = None
    #: What a reported text reads where it is quoted: pages hide secrets in it before it is cut.
    quoted: Callable[[str], str] = str
    has_hints: bool = field(default_factory=lambda: get_settings().hints)
    lease_seconds: float = field(default_factory=lambda: get_settings().lease_seconds)

    @property
    def state(self) -> State | None:
        """The state; None for a task that breaks the ledger's first invariant."""
        if self.task.outcome is not None:
            return State(self.task.outcome)
        if self.lease is not None:
            return State.ACTIVE
        return State.QUEUED if self.intent is not None else None

    @property
    def alike(self) -> int:
        """How many of the newest attempts ended as the last one did."""
        ends = ((outcome, _how(head or "")) for outcome, head in self.endings)
        last = next(ends, None)
        return sum(1 for _end in takewhile(lambda end: end == last, ends)) + (last is not None)

    @property
    def is_due(self) -> bool:
        return self.intent is not None and self.intent.available_at <= self.at

    @property
    def able(self) -> list[OpenSession]:
        """The open sessions that serve the queue and know the program's version."""
        return [s for s in self.sessions if s.serves and self.program.version in s.versions]

    @property
    def able_and_heard(self) -> list[OpenSession]:
        """Those of them whose workers are alive."""
        return [session for session in self.able if not session.is_silent]

    @property
    def taking(self) -> list[OpenSession]:
        """Those of these that take work: nobody has asked them to drain."""
        return [session for session in self.able_and_heard if not session.is_draining]


def _how(report_head: str) -> str | int | None:
    told = read_head(report_head)
    return told.error_class or told.exit_status
