"""The overview's table of queues: how much waits, since when, what was done lately, and who serves it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef

from ledgence.admin.minutes import Counts, Minutes
from ledgence.models import Publisher, Queue
from ledgence.status import OpenSession, QueueLoad, find_loads

#: How many queues the overview looks at.
QUEUES_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """One queue as it is now."""

    # Any: a queue with whether it is published.
    queue: Any
    load: QueueLoad
    lately: Counts
    #: How many live workers serve it.
    workers: int
    is_storm: bool

    @property
    def is_published(self) -> bool:
        return bool(self.queue.is_published)

    @property
    def oldest_seconds(self) -> float | None:
        return self.load.oldest_due_seconds


def find_queue_lines(sessions: Sequence[OpenSession], minutes: Minutes, *, using: str) -> list[QueueLine]:
    """Look at the queues, those first whose work has waited the longest."""
    is_published = Exists(Publisher.objects.live().filter(queue=OuterRef("pk")))
    queues = Queue.objects.using(using).annotate(is_published=is_published).order_by("name", "pk")[:QUEUES_MAX]
    loads = find_loads([queue.pk for queue in queues], using=using)
    lines = [
        QueueLine(
            queue=queue,
            load=loads[queue.pk],
            lately=minutes.lately[queue.pk],
            workers=sum(1 for _session in serving(queue, sessions)),
            is_storm=minutes.is_storm(queue.pk),
        )
        for queue in queues
    ]
    return sorted(lines, key=lambda line: -(line.oldest_seconds or 0.0))


def serving(queue: Queue, sessions: Sequence[OpenSession]) -> Iterator[OpenSession]:
    """Yield the live workers that serve a queue."""
    for session in sessions:
        is_own = (session.tenant, session.namespace) == (queue.tenant, queue.namespace)
        is_named = not session.queues or queue.name in session.queues
        if is_own and is_named and queue.name not in session.exclude_queues and not session.is_silent:
            yield session
