"""Who publishes in tests: a publisher that leases and records as it is told, and what its intents look like."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from ledgence.models import DeliveryEvent, DeliveryIntent
from ledgence.operations.publish import LeasedPublication, Publications, RoutedQueue, SendResult
from ledgence.operations.routes import QueueName, activate
from ledgence_worker.delivery.ports import PublishStatus
from ledgence_worker.protocol import Assignment
from tests.ledger.actors import USING, execute, operator

CONFIRMED, REFUSED = PublishStatus.CONFIRMED, PublishStatus.REFUSED
FAILED, UNCERTAIN = PublishStatus.FAILED, PublishStatus.UNCERTAIN
DEFAULT = QueueName(tenant="default", namespace="default", queue="default")


def named(queue: str) -> QueueName:
    return QueueName(tenant="default", namespace="default", queue=queue)


def route(queue: str = "default", destination: str = "there", *, using: str = USING) -> RoutedQueue:
    """Route a queue of the default scope, and return it."""
    name = named(queue)
    ids = activate({name: destination}, operator(), using=using)
    return RoutedQueue(id=ids[name], name=name, destination=destination)


class PublisherActor:
    """One publisher of one queue, which is stepped by a test."""

    def __init__(self, queue: RoutedQueue, *, using: str = USING) -> None:
        self.queue = queue
        self.publications = Publications(queue, using=using)

    def lease(self, limit: int = 100) -> list[LeasedPublication]:
        return list(self.publications.turn((), limit).leased)

    def lease_one(self) -> LeasedPublication:
        [leased] = self.lease()
        return leased

    def record(
        self, *leased: LeasedPublication, status: PublishStatus | None = CONFIRMED, detail: str = ""
    ) -> list[UUID]:
        """Record the same of each, and return those that somebody else holds."""
        results = [SendResult(leased=one, status=status, detail=detail) for one in leased]
        return [one.leased.task_id for one in self.publications.turn(results, 0).held]

    def publish(self) -> list[LeasedPublication]:
        """Lease what is due, and record that it was confirmed."""
        leased = self.lease()
        self.record(*leased)
        return leased


def intent_of(task: UUID) -> DeliveryIntent:
    return DeliveryIntent.objects.get(pk=task)


def events_of(task: UUID) -> list[tuple[str, int, UUID | None]]:
    """Return the kind, epoch and publication of a task's delivery events, in order."""
    return list(
        DeliveryEvent.objects.filter(task_id=task).order_by("pk").values_list("kind", "epoch", "publication_id")
    )


def tasks_of(items: Iterable[LeasedPublication | Assignment]) -> list[UUID]:
    return [item.task_id for item in items]


def make_publications_due(*tasks: UUID) -> None:
    """Let the publications of the named tasks (of all, when none is named) be due now."""
    statement = (
        "update ledgence_deliveryintent set next_publish_at = clock_timestamp() "
        "where next_publish_at is not null and (%s or task_id = any(%s::uuid[]))"
    )
    execute(statement, [not tasks, list(tasks)])


def snapshot_of(task: UUID) -> dict[str, Any]:
    """Return every column of an intent."""
    return dict(DeliveryIntent.objects.values().get(pk=task))
