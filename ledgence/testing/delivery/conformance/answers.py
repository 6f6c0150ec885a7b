"""Rules of an adapter's answers, which hold of every broker: also of one that loses, repeats and partly fails."""

import itertools
import time
from collections.abc import Callable, Sequence

import pytest

from ledgence.testing.delivery.conformance.adapter_case import AdapterCase, PhysicalQueue, entries, ids
from ledgence_worker.delivery.ports import (
    ADDRESS_BYTES,
    AckQueue,
    DispatchPublisher,
    PublishStatus,
    ReceiptAnswer,
    ReceiptStatus,
)
from ledgence_worker.errors import LedgenceError

#: Texts that no broker gave out.
FOREIGN_RECEIPTS = ("nobody's", "", " ", "x" * 5000, "é\u20ac\U0001f600", "a\x01b", '{"a": "b"}', "../../other/1")


class AdapterAnswers(AdapterCase):
    """One answer for each entry and receipt, true and bounded in time, whatever the broker does."""

    def test_both_sides_tell_the_same_address(self, publisher: DispatchPublisher, ack_queue: AckQueue) -> None:
        told = publisher.inspect()
        assert told == publisher.inspect()
        assert told.address == ack_queue.inspect().address
        assert told.address.strip()
        assert len(told.address.encode()) <= ADDRESS_BYTES
        assert all(warning.strip() for warning in told.warnings)

    def test_each_entry_is_answered_once_by_its_id(self, publisher: DispatchPublisher) -> None:
        assert publisher.batch_max >= 1
        for size in (*range(publisher.batch_max + 1), publisher.batch_max):
            batch = entries(*(f"body {n}" for n in range(size)))
            results = publisher.publish(batch)
            assert sorted(result.publication_id for result in results) == ids(batch)
            for result in results:
                assert isinstance(result.status, PublishStatus)
                assert bool(result.message_id) == (result.status is PublishStatus.CONFIRMED), result
                assert result.message_id is None or isinstance(result.message_id, str)

    def test_more_entries_than_a_batch_are_answered_or_refused_before_anything_is_sent(
        self, publisher: DispatchPublisher, ack_queue: AckQueue
    ) -> None:
        batch = entries(*(f"body {n}" for n in range(publisher.batch_max + 1)))
        try:
            results = publisher.publish(batch)
        except (ValueError, LedgenceError) as error:
            assert str(publisher.batch_max) in str(error), "the error does not tell the limit"
            self.see_nothing(ack_queue)
        else:
            assert sorted(result.publication_id for result in results) == ids(batch)

    def test_no_more_messages_come_than_were_asked_for(self, publisher: DispatchPublisher, ack_queue: AckQueue) -> None:
        publisher.publish(entries(*(f"body {n}" for n in range(publisher.batch_max))))
        for count in (1, min(2, ack_queue.batch_max), ack_queue.batch_max):
            messages = ack_queue.receive(count, 0.0)
            assert len(messages) <= count
            assert all(message.message_id and message.receipt for message in messages)
            assert len({message.receipt for message in messages}) == len(messages)

    @pytest.mark.parametrize("wait_seconds", [0.0, 0.3, 1.0])
    def test_a_receive_of_nothing_ends_soon_after_its_wait(self, ack_queue: AckQueue, wait_seconds: float) -> None:
        began = time.monotonic()
        assert list(ack_queue.receive(ack_queue.batch_max, wait_seconds)) == []
        # A broker that waits in whole seconds may round up.
        assert time.monotonic() - began < wait_seconds + 1.0 + self.patience_seconds

    def test_each_receipt_is_answered_once(self, publisher: DispatchPublisher, ack_queue: AckQueue) -> None:
        for call in (ack_queue.give_back, ack_queue.acknowledge):
            assert list(call([])) == []
            publisher.publish(entries(*(f"body {n}" for n in range(publisher.batch_max))))
            receipts = [message.receipt for message in ack_queue.receive(ack_queue.batch_max, 1.0)]
            check_answers(call, receipts)
            # Now they are over, and yet they are answered.
            check_answers(call, receipts)

    @pytest.mark.parametrize("receipt", FOREIGN_RECEIPTS, ids=range(len(FOREIGN_RECEIPTS)))
    def test_a_receipt_of_nobody_is_answered(self, ack_queue: AckQueue, receipt: str) -> None:
        for call in (ack_queue.give_back, ack_queue.acknowledge):
            check_answers(call, [receipt])

    def test_receipts_are_taken_in_batches_of_every_size(
        self, publisher: DispatchPublisher, ack_queue: AckQueue
    ) -> None:
        made = (f"nobody's {n}" for n in itertools.count())
        for size in range(1, ack_queue.batch_max + 1):
            check_answers(ack_queue.acknowledge, list(itertools.islice(made, size)))
            check_answers(ack_queue.give_back, list(itertools.islice(made, size)))

    def test_what_is_closed_can_be_opened_anew(self, physical_queue: PhysicalQueue) -> None:
        for _ in range(3):
            publisher, ack_queue = physical_queue.publisher(), physical_queue.ack_queue()
            publisher.publish(entries("body"))
            ack_queue.receive(1, 0.0)
            publisher.close()
            ack_queue.close()
        unused = physical_queue.publisher(), physical_queue.ack_queue()
        for end in unused:
            end.close()


def check_answers(
    call: Callable[[Sequence[str]], Sequence[ReceiptAnswer]], receipts: Sequence[str]
) -> list[ReceiptAnswer]:
    """See that each receipt is answered once, and return the answers in the receipts' order."""
    answers = call(receipts)
    assert sorted(answer.receipt for answer in answers) == sorted(receipts)
    assert all(isinstance(answer.status, ReceiptStatus) for answer in answers)
    return sorted(answers, key=lambda answer: receipts.index(answer.receipt))
