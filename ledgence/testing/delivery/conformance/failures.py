"""Rules of what an adapter tells when the queue does not exist, or its broker is down."""

import time
from collections.abc import Callable, Iterator

import pytest

from ledgence.testing.delivery.conformance.adapter_case import (
    AdapterCase,
    Outage,
    PhysicalQueue,
    begun,
    closed,
    entries,
    ids,
)
from ledgence.testing.delivery.conformance.answers import check_answers
from ledgence_worker.delivery.ports import AckQueue, DispatchPublisher, Message, PublishStatus, ReceiptStatus
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable

#: What cannot be said of an entry while the broker is down or the queue is missing: it is not the entry's fault.
WRONG = {PublishStatus.CONFIRMED, PublishStatus.REFUSED}


class AdapterFailures(AdapterCase):
    """A queue that is missing is refused; a broker that is down is unavailable, and works again afterwards."""

    @pytest.fixture
    def missing_queue(self) -> PhysicalQueue:
        """A queue that the broker does not have. Override it."""
        raise NotImplementedError("Override the fixture missing_queue.")

    @pytest.fixture
    def outage(self, physical_queue: PhysicalQueue) -> Outage:
        """An outage of the physical queue's broker. Override it."""
        raise NotImplementedError("Override the fixture outage.")

    @pytest.fixture
    def missing_publisher(self, missing_queue: PhysicalQueue) -> Iterator[DispatchPublisher]:
        with closed(missing_queue.publisher()) as publisher:
            yield publisher

    @pytest.fixture
    def missing_ack_queue(self, missing_queue: PhysicalQueue) -> Iterator[AckQueue]:
        with closed(missing_queue.ack_queue()) as ack_queue:
            yield ack_queue

    def test_a_missing_queue_is_refused(
        self, missing_publisher: DispatchPublisher, missing_ack_queue: AckQueue
    ) -> None:
        calls: list[Callable[[], object]] = [missing_publisher.inspect, missing_ack_queue.inspect]
        calls.append(lambda: missing_ack_queue.receive(1, 0.0))
        for call in calls:
            with pytest.raises(BrokerRefused) as refused:
                call()
            assert str(refused.value).strip()

    def test_no_entry_is_blamed_for_a_missing_queue(self, missing_publisher: DispatchPublisher) -> None:
        self._check_unsent(missing_publisher, (BrokerRefused, BrokerUnavailable))

    def test_receipts_of_a_missing_queue_are_answered(self, missing_ack_queue: AckQueue) -> None:
        for call in (missing_ack_queue.acknowledge, missing_ack_queue.give_back):
            [answer] = check_answers(call, ["receipt"])
            assert answer.status is not ReceiptStatus.DONE

    def test_a_broker_that_is_down_is_unavailable_and_works_again(
        self, publisher: DispatchPublisher, ack_queue: AckQueue, outage: Outage
    ) -> None:
        self.send(publisher, "before")
        [message] = self.receive(ack_queue, 1)
        outage.begin()
        try:
            calls: list[Callable[[], object]] = [publisher.inspect, ack_queue.inspect]
            calls.append(lambda: ack_queue.receive(1, 0.0))
            for call in calls:
                with self._in_time(), pytest.raises(BrokerUnavailable) as unavailable:
                    call()
                assert str(unavailable.value).strip()
            with self._in_time():
                self._check_unsent(publisher, (BrokerUnavailable,))
            for answer in (ack_queue.give_back, ack_queue.acknowledge):
                with self._in_time():
                    assert check_answers(answer, [message.receipt])[0].status is ReceiptStatus.FAILED
        finally:
            outage.end()
        self._see_it_work(publisher, ack_queue)

    def test_a_receiver_that_waits_is_told_of_an_outage(
        self, publisher: DispatchPublisher, ack_queue: AckQueue, outage: Outage
    ) -> None:
        with begun(lambda: self._receive_until_unavailable(ack_queue)) as waiting:
            outage.begin()
            try:
                assert waiting.result(self.outage_seconds + self.patience_seconds)
            finally:
                outage.end()
        self._see_it_work(publisher, ack_queue)

    def _receive_until_unavailable(self, ack_queue: AckQueue) -> bool:
        give_up = time.monotonic() + self.outage_seconds
        while time.monotonic() < give_up:
            try:
                ack_queue.receive(1, 2.0)
            except BrokerUnavailable:
                return True
        return False

    def _check_unsent(self, publisher: DispatchPublisher, allowed: tuple[type[Exception], ...]) -> None:
        batch = entries("a", "b")[: publisher.batch_max]
        try:
            results = publisher.publish(batch)
        except allowed as error:
            assert str(error).strip()
        else:
            assert sorted(result.publication_id for result in results) == ids(batch)
            assert not WRONG & {result.status for result in results}, results

    def _see_it_work(self, publisher: DispatchPublisher, ack_queue: AckQueue) -> None:
        """See the same ends work again. What was sent before may be lost, or come as well."""
        give_up = time.monotonic() + self.outage_seconds
        received: list[Message] = []
        while not any(message.body == "after" for message in received):
            assert time.monotonic() < give_up, "nothing comes through after the outage"
            try:
                publisher.publish(entries("after"))
                received += ack_queue.receive(1, 1.0)
            except BrokerUnavailable:
                time.sleep(0.05)
        assert publisher.inspect().address == ack_queue.inspect().address

    def _in_time(self) -> "_InTime":
        return _InTime(self.outage_seconds)


class _InTime:
    """Fails if its block takes longer than allowed."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *raised: object) -> None:
        took = time.monotonic() - self._began
        assert took < self._seconds, f"it took {took:.1f} s to tell that the broker is down"
