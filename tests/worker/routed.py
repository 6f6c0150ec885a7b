"""Doubles of routed queues: a broker in memory whose calls stand in a journal, and messages for it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from ledgence.testing.delivery import MemoryBroker
from ledgence_worker.consumed_queue import ConsumedQueue
from ledgence_worker.delivery.config import Route
from ledgence_worker.delivery.ports import AckQueue, DispatchPublisher, Inspection, Message, ReceiptAnswer
from ledgence_worker.delivery.reference import VERSION, Reference, encode
from ledgence_worker.protocol import Assignment

QUEUE = "far"


def reference_of(assignment: Assignment, **changes: object) -> Reference:
    values: dict[str, object] = {
        "v": VERSION,
        "tenant": assignment.tenant,
        "namespace": assignment.namespace,
        "queue": assignment.queue,
        "task": assignment.task_id,
        "generation": assignment.number,
        "publication": uuid4(),
    } | changes
    return Reference(**values)  # type: ignore[arg-type]


def body_of(assignment: Assignment, **changes: object) -> str:
    """Return a message's body that names an attempt to be."""
    return encode(reference_of(assignment, **changes))


class SpyQueue:
    """An AckQueue before another one: it writes down each call, and fails as told. ``journal`` may be shared."""

    def __init__(self, broker: MemoryBroker, journal: list[str] | None = None) -> None:
        self.broker = broker
        self.inner = broker.ack_queue()
        self.batch_max = self.inner.batch_max
        self.journal = journal if journal is not None else []
        self.waits: list[float] = []
        self.counts: list[int] = []
        self.acknowledged: list[str] = []
        self.given_back: list[str] = []
        self.is_closed = False
        self.inspections: list[Exception] = []
        #: Raised by the next receives, or called in their place.
        self.receives: list[Exception | Callable[[], Sequence[Message]]] = []
        self.before_receive: Callable[[], object] = lambda: None
        self.before_acknowledge: Callable[[], object] = lambda: None

    def inspect(self) -> Inspection:
        if self.inspections:
            raise self.inspections.pop(0)
        return self.inner.inspect()

    def receive(self, count: int, wait_seconds: float) -> Sequence[Message]:
        self.journal.append("receive")
        self.counts.append(count)
        self.waits.append(wait_seconds)
        self.before_receive()
        planned = self.receives.pop(0) if self.receives else None
        if isinstance(planned, Exception):
            raise planned
        return planned() if planned is not None else self.inner.receive(count, wait_seconds)

    def acknowledge(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        self.before_acknowledge()
        self.journal.append("acknowledge")
        self.acknowledged.extend(receipts)
        return self.inner.acknowledge(receipts)

    def give_back(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        self.journal.append("give_back")
        self.given_back.extend(receipts)
        return self.inner.give_back(receipts)

    def close(self) -> None:
        self.is_closed = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """The options of a route through a broker in memory."""

    queue: AckQueue
    publishing: DispatchPublisher = field(compare=False)

    def publisher(self) -> DispatchPublisher:
        return self.publishing

    def ack_queue(self) -> AckQueue:
        return self.queue


def make_route(spy: SpyQueue, *, queue: str = QUEUE, tenant: str | None = None, namespace: str | None = None) -> Route:
    options = MemoryOptions(queue=spy, publishing=spy.broker.publisher())
    return Route(tenant=tenant, namespace=namespace, queue=queue, adapter="memory", options=options)


def make_queue(spy: SpyQueue, name: str = QUEUE) -> ConsumedQueue:
    return ConsumedQueue(name=name, broker=spy, address=spy.broker.address)


def put(broker: MemoryBroker, assignments: Iterable[Assignment]) -> None:
    """Announce work."""
    broker.put(*map(body_of, assignments))
