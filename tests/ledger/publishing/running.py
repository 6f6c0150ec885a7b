"""Publishers that run on threads of a test, over brokers in memory."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from ledgence.operations.publish import RoutedQueue
from ledgence.publishing.publisher import QueuePublisher
from ledgence.testing.delivery.memory import MemoryBroker
from ledgence.worker_connections import WorkerConnections
from ledgence_worker.delivery.ports import DispatchPublisher
from ledgence_worker.delivery.reference import decode
from tests.ledger.actors import USING

DEADLINE_SECONDS = 20.0


@dataclass
class FakeRoute:
    """A route of a configuration that leads to a broker in memory."""

    broker: MemoryBroker
    queue: str = "default"
    tenant: str | None = None
    namespace: str | None = None

    def publisher(self) -> DispatchPublisher:
        return self.broker.publisher()


@contextmanager
def publishing(queue: RoutedQueue, broker: DispatchPublisher) -> Iterator[QueuePublisher]:
    """Let a publisher run for the block, and end it as a process would."""
    connections = WorkerConnections(USING)
    publisher = QueuePublisher(queue, broker, connections)
    thread = threading.Thread(target=publisher.run, daemon=True)
    thread.start()
    try:
        yield publisher
    finally:
        publisher.stop()
        thread.join(DEADLINE_SECONDS)
        connections.close()
        assert not thread.is_alive(), "the publisher did not end"


def publish_once(queue: RoutedQueue, broker: DispatchPublisher) -> QueuePublisher:
    """Publish what is due now, on a thread as in a process, and return the publisher that has ended."""
    connections = WorkerConnections(USING)
    publisher = QueuePublisher(queue, broker, connections, once=True)
    thread = threading.Thread(target=publisher.run, daemon=True)
    thread.start()
    thread.join(DEADLINE_SECONDS)
    connections.close()
    assert not thread.is_alive(), "the publisher did not end"
    return publisher


def sent_to(broker: MemoryBroker) -> list[UUID]:
    """Return the tasks of what the broker took, in its order."""
    with broker.changed:
        return [decode(publication.body).task for publication in broker.sent]
