"""How the ledger is now: the work of its queues, the workers and publishers that are there. For the admin's pages, the
commands and the explanation of a task."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from ledgence import sql
from ledgence.models import Queue
from ledgence.models.publisher import SILENT_AFTER as PUBLISHER_SILENT_AFTER
from ledgence.models.session import silent_after

#: How far a queue's work is counted.
COUNT_CAP = 1_000
#: How many queues, sessions and publishers are looked at.
ROWS_CAP = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLoad:
    """How much work a queue has; counts of COUNT_CAP + 1 mean more than the cap."""

    due: int
    #: How long the oldest of them is due; None without any.
    oldest_due_seconds: float | None
    later: int
    active: int


def find_loads(ids: Sequence[int], *, using: str) -> dict[int, QueueLoad]:
    """Count the work of queues, by id."""
    rows = sql.run("describe_queues", using, {"queues": list(ids), "cap": COUNT_CAP})
    return {row[0]: QueueLoad(due=row[1], oldest_due_seconds=row[2], later=row[3], active=row[4]) for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """A queue, whether it hands out its work, and how much there is; counts of COUNT_CAP + 1 mean more than the cap."""

    tenant: str
    namespace: str
    queue: str
    mode: str
    destination: str | None
    paused_at: datetime | None
    paused_until: datetime | None
    paused_by: str
    pause_reason: str
    due: int
    oldest_due_seconds: float | None
    later: int
    active: int


def find_queues(*, using: str) -> list[QueueStatus]:
    """Return the queues by name, with their work; at most ROWS_CAP."""
    queues = list(Queue.objects.using(using).order_by("tenant", "namespace", "name")[:ROWS_CAP])
    loads = find_loads([queue.pk for queue in queues], using=using)
    return [
        QueueStatus(
            tenant=queue.tenant,
            namespace=queue.namespace,
            queue=queue.name,
            mode=queue.mode,
            destination=queue.destination,
            paused_at=queue.paused_at,
            paused_until=queue.paused_until,
            paused_by=queue.paused_by,
            pause_reason=queue.pause_reason,
            **asdict(loads[queue.pk]),
        )
        for queue in queues
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """A worker session that is neither closed nor over, and what it does."""

    id: UUID
    tenant: str
    namespace: str
    name: str
    host: str
    pid: int
    version: str
    concurrency: int
    #: Empty: every queue.
    queues: Sequence[str]
    exclude_queues: Sequence[str]
    opened_at: datetime
    expires_at: datetime
    #: Since when it takes no more work. None: nobody asked it to drain.
    drain_requested_at: datetime | None
    #: Since it was last heard of; None: it was opened before that was written down.
    heard_seconds: float | None
    #: The program of each lease that it holds.
    running: Sequence[str]
    #: How many of these leases are not over.
    live: int
    #: Whether it serves the queue that was asked for.
    serves: bool
    #: Which versions it has of the program that was asked for.
    versions: Sequence[str]

    @property
    def is_silent(self) -> bool:
        """Whether its worker should have been heard of: it died, hangs, or cannot reach the task service."""
        return self.heard_seconds is not None and self.heard_seconds >= silent_after().total_seconds()

    @property
    def is_draining(self) -> bool:
        return self.drain_requested_at is not None

    @property
    def free(self) -> int:
        """How many of its slots hold nothing."""
        return max(0, self.concurrency - len(self.running))

    def __str__(self) -> str:
        return f"{self.name} ({self.host}:{self.pid})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a task needs of a session."""

    tenant: str
    namespace: str
    queue: str
    program: str
    version: str


def find_open_sessions(wanted: Wanted | None = None, *, using: str) -> list[OpenSession]:
    """Return the open sessions, those first that can run what is wanted; at most ROWS_CAP."""
    terms = {
        field: wanted and getattr(wanted, field) for field in ("tenant", "namespace", "queue", "program", "version")
    }
    names = OpenSession.__dataclass_fields__
    rows = sql.run("find_open_sessions", using, terms | {"limit": ROWS_CAP})
    return [OpenSession(**dict(zip(names, row, strict=True))) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherStatus:
    """A process that publishes one queue, or did so until lately."""

    id: UUID
    queue: str
    host: str
    pid: int
    version: str
    started_at: datetime
    turned_seconds: float
    #: Since the broker last answered; None: it never has.
    answered_seconds: float | None
    failure: str

    @property
    def is_live(self) -> bool:
        return self.turned_seconds < PUBLISHER_SILENT_AFTER.total_seconds()


def find_publishers(queue_id: int | None = None, *, using: str) -> list[PublisherStatus]:
    """Return who publishes, of one queue or of all, the last one that turned first; at most ROWS_CAP."""
    names = PublisherStatus.__dataclass_fields__
    rows = sql.run("find_publishers", using, {"queue": queue_id, "limit": ROWS_CAP})
    return [PublisherStatus(**dict(zip(names, row, strict=True))) for row in rows]
