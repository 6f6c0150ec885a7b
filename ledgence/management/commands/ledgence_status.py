"""How the ledger is now, as a command: queues, workers, publishers, and whether housekeeping is done."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from ledgence.conf import get_settings
from ledgence.housekeeping import SILENCE_SECONDS_MAX, seconds_since_turn
from ledgence.management.operating import add_format, aligned, to_json
from ledgence.status import (
    COUNT_CAP,
    OpenSession,
    PublisherStatus,
    QueueStatus,
    find_open_sessions,
    find_publishers,
    find_queues,
)
from ledgence.watch import Unpublished, Unserved, old_snapshots, unpublished_queues, unserved_work
from ledgence.wording import clock_time, span, visible

QUEUE_TITLES = ("QUEUE", "STATE", "DUE", "OLDEST DUE", "LATER", "ACTIVE", "MODE", "TENANT", "NAMESPACE")
SESSION_TITLES = ("WORKER", "STATE", "SLOTS", "HEARD OF", "QUEUES", "VERSION", "TENANT", "NAMESPACE")
NO_HOUSEKEEPING = (
    "No process does the housekeeping that ends expired leases: start manage.py ledgence_recover, or a worker beside "
    "the database."
)
PUBLISHER_TITLES = ("PUBLISHER", "STATE", "TURNED", "BROKER ANSWERED", "FAILURE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the command tells."""

    queues: Sequence[QueueStatus]
    sessions: Sequence[OpenSession]
    publishers: Sequence[PublisherStatus]
    #: Since housekeeping turned; None: no process has ever done it.
    housekeeping_seconds: float | None
    unserved: Sequence[Unserved]
    unpublished: Sequence[Unpublished]
    #: Process id and age in seconds.
    old_snapshots: Sequence[tuple[int, float]]


class Command(BaseCommand):
    help = "Tell how the ledger is now: queues and their work, workers, publishers, housekeeping."

    def add_arguments(self, parser: CommandParser) -> None:
        add_format(parser)

    def handle(self, *, format: str, **options: Any) -> None:
        status = find_status(using=get_settings().database)
        if format == "json":
            self.stdout.write(to_json(_for_programs(status)))
            return
        for line in _lines(status):
            self.stdout.write(line)


def find_status(*, using: str) -> Status:
    """Return how the ledger is now. A few statements, none of which reads finished work."""
    return Status(
        queues=find_queues(using=using),
        sessions=find_open_sessions(using=using),
        publishers=find_publishers(using=using),
        housekeeping_seconds=seconds_since_turn(using=using),
        unserved=unserved_work(using),
        unpublished=unpublished_queues(using),
        old_snapshots=old_snapshots(using),
    )


def _for_programs(status: Status) -> dict[str, Any]:
    """Return the values with what follows from them: who is silent, and which publishers are live."""
    told = asdict(status)
    for session, known in zip(told["sessions"], status.sessions, strict=True):
        del session["serves"], session["versions"]
        session["is_silent"] = known.is_silent
    for publisher, one in zip(told["publishers"], status.publishers, strict=True):
        publisher["is_live"] = one.is_live
    told["unserved"] = [work._asdict() for work in status.unserved]
    told["unpublished"] = [queue._asdict() for queue in status.unpublished]
    return told


def _lines(status: Status) -> Iterator[str]:
    """Put the status into the lines of a terminal."""
    yield from _table(QUEUE_TITLES, map(_queue, status.queues), "No queue is known: nothing was ever submitted.")
    yield ""
    yield from _table(SESSION_TITLES, map(_session, status.sessions), "No worker session is open.")
    if status.publishers:
        yield ""
        yield from _table(PUBLISHER_TITLES, map(_publisher, status.publishers), "")
    yield ""
    yield _housekeeping(status.housekeeping_seconds)
    for queue in status.queues:
        if queue.paused_at is not None:
            until = f" until {clock_time(queue.paused_until)}" if queue.paused_until else ""
            since = clock_time(queue.paused_at)
            yield visible(
                f"! Queue {queue.queue} is paused by {queue.paused_by} since {since}{until}: {queue.pause_reason}"
            )
    for one in status.unpublished:
        yield visible(
            f"! Queue {one.queue} has no live publisher: its work reaches no worker. "
            "Start manage.py ledgence_publisher with its route."
        )
    for session in status.sessions:
        if session.is_silent:
            yield visible(f"! Worker {session} is silent: heard of {_ago(session.heard_seconds)}.")
    for work in status.unserved:
        yield visible(
            f"! Queue {work.queue} has {_count(work.tasks)} due tasks of {work.program} {work.version}, which no live "
            "worker runs."
        )
    for pid, seconds in status.old_snapshots:
        age = span(timedelta(seconds=seconds))
        yield f"! Database process {pid} has held a snapshot for {age}: searches for work are slow."


def _table(titles: Sequence[str], rows: Iterator[Sequence[str]], nothing: str) -> Iterator[str]:
    cells = [[visible(cell) for cell in row] for row in rows]
    if not cells:
        yield nothing
        return
    yield from aligned([titles, *cells])


def _queue(queue: QueueStatus) -> Sequence[str]:
    state = "open" if queue.paused_at is None else "paused"
    oldest = "-" if queue.oldest_due_seconds is None else span(timedelta(seconds=queue.oldest_due_seconds))
    work = (_count(queue.due), oldest, _count(queue.later), _count(queue.active))
    return (queue.queue, state, *work, queue.mode, queue.tenant, queue.namespace)


def _session(session: OpenSession) -> Sequence[str]:
    served = ",".join(session.queues) or "all"
    if session.exclude_queues:
        served += f" but {','.join(session.exclude_queues)}"
    state = "silent" if session.is_silent else "draining" if session.is_draining else "live"
    slots = f"{len(session.running)} of {session.concurrency}"
    scope = (session.tenant, session.namespace)
    return (str(session), state, slots, _ago(session.heard_seconds), served, session.version, *scope)


def _publisher(publisher: PublisherStatus) -> Sequence[str]:
    name = f"{publisher.queue} ({publisher.host}:{publisher.pid})"
    state = "live" if publisher.is_live else "silent"
    times = (_ago(publisher.turned_seconds), _ago(publisher.answered_seconds))
    return (name, state, *times, publisher.failure or "-")


def _housekeeping(seconds: float | None) -> str:
    if seconds is None:
        return f"! Housekeeping: {NO_HOUSEKEEPING}"
    if seconds > SILENCE_SECONDS_MAX:
        return f"! Housekeeping: turned {_ago(seconds)}. {NO_HOUSEKEEPING}"
    return f"Housekeeping: turned {_ago(seconds)}."


def _ago(seconds: float | None) -> str:
    return "-" if seconds is None else f"{span(timedelta(seconds=seconds))} ago"


def _count(count: int) -> str:
    return f"{COUNT_CAP:,}+" if count > COUNT_CAP else str(count)
