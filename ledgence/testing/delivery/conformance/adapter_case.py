"""What an adapter's tests are given, and how they send and receive."""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ClassVar, Protocol
from uuid import UUID, uuid4

import pytest

from ledgence_worker.delivery.ports import AckQueue, DispatchPublisher, Message, Publication, PublishStatus


class PhysicalQueue(Protocol):
    """A queue of the broker under test. An adapter's options are one already."""

    def publisher(self) -> DispatchPublisher:
        """Return something new that sends to the queue; the suite closes it."""
        ...

    def ack_queue(self) -> AckQueue:
        """Return something new that receives from the queue; the suite closes it."""
        ...


class Outage(Protocol):
    """Takes the broker of the physical queue away, and gives it back. The queue is there again afterwards."""

    def begin(self) -> None: ...

    def end(self) -> None: ...


class AdapterCase:
    """The fixtures of every test of an adapter, and what the broker can do."""

    #: How long a received message of ``brief_queue`` stays hidden. None says that the broker hides it until it is
    #: acknowledged or given back, however long that takes; then ``brief_queue`` is not asked for.
    visibility_seconds: ClassVar[float | None] = None
    #: How late the broker and the machine may be in anything.
    patience_seconds: ClassVar[float] = 10.0
    #: How long the adapter may take to tell that the broker is down.
    outage_seconds: ClassVar[float] = 30.0

    @pytest.fixture
    def physical_queue(self) -> PhysicalQueue:
        """A fresh, empty queue whose messages stay hidden for a minute or longer. Override it."""
        raise NotImplementedError("Override the fixture physical_queue.")

    @pytest.fixture
    def brief_queue(self) -> PhysicalQueue:
        """A fresh, empty queue whose messages stay hidden for ``visibility_seconds``. Override it where that is set."""
        raise NotImplementedError("Override the fixture brief_queue, or let visibility_seconds be None.")

    @pytest.fixture
    def publisher(self, physical_queue: PhysicalQueue) -> Iterator[DispatchPublisher]:
        with closed(physical_queue.publisher()) as publisher:
            yield publisher

    @pytest.fixture
    def ack_queue(self, physical_queue: PhysicalQueue) -> Iterator[AckQueue]:
        with closed(physical_queue.ack_queue()) as ack_queue:
            yield ack_queue

    def send(self, publisher: DispatchPublisher, *bodies: str) -> None:
        """Send bodies, and see them confirmed."""
        for some in itertools.batched(bodies, publisher.batch_max):
            results = publisher.publish(entries(*some))
            assert [result.status for result in results] == [PublishStatus.CONFIRMED] * len(some), results

    def receive(self, ack_queue: AckQueue, count: int, *, hidden_seconds: float = 0.0) -> list[Message]:
        """Receive until there are so many, which may be hidden so long. Fails when they do not come in time."""
        received: list[Message] = []
        give_up = time.monotonic() + hidden_seconds + self.patience_seconds
        while len(received) < count:
            assert time.monotonic() < give_up, f"only {len(received)} of {count} messages came"
            received += ack_queue.receive(min(count - len(received), ack_queue.batch_max), 1.0)
        return received

    def see_nothing(self, ack_queue: AckQueue) -> None:
        """See that nothing can be received now."""
        assert list(ack_queue.receive(ack_queue.batch_max, 0.0)) == []


def entries(*bodies: str) -> list[Publication]:
    """Return publications with ids of their own."""
    return [Publication(publication_id=uuid4(), body=body) for body in bodies]


def ids(batch: Sequence[Publication]) -> list[UUID]:
    """Return the ids of publications, sorted."""
    return sorted(publication.publication_id for publication in batch)


@contextlib.contextmanager
def begun[T](call: Callable[[], T]) -> Iterator[Future[T]]:
    """Run a call in a thread, and go on when it is about to begin. The end of the block waits for it."""
    is_begun = threading.Event()

    def run() -> T:
        is_begun.set()
        return call()

    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(run)
        is_begun.wait()
        yield future


def closed[End: (DispatchPublisher, AckQueue)](end: End) -> contextlib.closing[End]:
    """Close an end of a queue when the block is over."""
    return contextlib.closing(end)
