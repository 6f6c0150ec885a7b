"""Publication: due intents of a routed queue are leased to a publisher, and what became of each is recorded."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from ledgence import sql
from ledgence.operations.routes import QueueName
from ledgence.sql.text import storable
from ledgence.transitions import transition
from ledgence_worker.delivery.ports import PublishStatus

#: How long a publisher has for what it leased: until then nobody else sends it.
LEASE_SECONDS = 30.0
#: How long a remembered mark may hide publications that are older than it.
RESCAN_SECONDS = 1.0
#: How far a mark stays behind a search that found everything: what is committed a little late is still found at once.
LATE = timedelta(seconds=1)
DETAIL_CHARACTERS = 1024
UNSENT = "unsent"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedQueue:
    """A queue, and the destination that its publisher sends to."""

    id: int
    name: QueueName
    destination: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedPublication:
    """One publication to send now. ``token`` is the lease: whose word on it counts."""

    task_id: UUID
    generation: int
    publication_id: UUID
    token: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """What became of a leased publication. ``status`` None: it was not sent at all."""

    leased: LeasedPublication
    status: PublishStatus | None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one turn gave. ``held``: results that could not be recorded yet, since somebody else holds the intent."""

    leased: Sequence[LeasedPublication]
    held: Sequence[SendResult]


class Publications:
    """The publications of one queue, as one publisher takes them. Used by one thread.

    The queue's publications may begin with dead rows, while an old snapshot is open. So a search leaves a low-water
    mark where the live ones began, and for up to a second the next ones start there.
    """

    def __init__(self, queue: RoutedQueue, *, using: str) -> None:
        self.queue = queue
        self._using = using
        self._mark: datetime | None = None
        self._walked_at = float("-inf")

    def turn(self, results: Sequence[SendResult], limit: int) -> Turn:
        """Record results and lease up to ``limit`` due publications, in one commit that waits for no lock.

        A result counts only while the publication is still leased by its token; recording it again changes nothing.
        """
        with transition(self._using, what="publish", batched=True):
            held = _send_results(results, using=self._using)
            leased = self._send_lease(limit)
            return Turn(held=held(), leased=leased())

    def _send_lease(self, limit: int) -> Callable[[], list[LeasedPublication]]:
        if not limit:
            return list
        if time.monotonic() - self._walked_at >= RESCAN_SECONDS:
            self._mark, self._walked_at = None, time.monotonic()
        token = uuid4()
        rows = sql.send(
            "lease_publications",
            self._using,
            {
                "queue": self.queue.id,
                "destination": self.queue.destination,
                "since": self._mark,
                "limit": limit,
                "token": token,
                "lease_seconds": LEASE_SECONDS,
            },
        )

        def fetch() -> list[LeasedPublication]:
            answer = rows()
            looked_at, last_due_at = answer[0][:2]
            found = [row[2:] for row in answer if row[2] is not None]
            self._mark = last_due_at if len(found) == limit else looked_at - LATE
            return [
                LeasedPublication(task_id=task, generation=generation, publication_id=publication, token=token)
                for task, generation, publication in found
            ]

        return fetch

    def seconds_to_next(self, within_seconds: float) -> float | None:
        """Return when the next publication is due, in seconds from now, if that is within so many."""
        parameters = {
            "queue": self.queue.id,
            "destination": self.queue.destination,
            "within_seconds": within_seconds,
        }
        rows = sql.run("next_publication", self._using, parameters)
        return rows[0][0] if rows else None


def _send_results(results: Sequence[SendResult], *, using: str) -> Callable[[], list[SendResult]]:
    if not results:
        return list
    # What was leased again since says nothing of the lease before.
    by_task = {result.leased.task_id: result for result in results}
    results = list(by_task.values())
    rows = sql.send(
        "record_publications",
        using,
        {
            "tasks": [result.leased.task_id for result in results],
            "publications": [result.leased.publication_id for result in results],
            "tokens": [result.leased.token for result in results],
            "statuses": [UNSENT if result.status is None else result.status.value for result in results],
            "details": [storable(result.detail)[:DETAIL_CHARACTERS] for result in results],
        },
    )
    return lambda: [by_task[task] for (task,) in rows()]
