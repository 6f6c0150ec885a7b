"""Rules of the messages themselves, which hold of a broker that works."""

import contextlib
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest

from ledgence.testing.delivery.conformance.adapter_case import AdapterCase, PhysicalQueue, begun, closed, entries
from ledgence.testing.delivery.conformance.answers import FOREIGN_RECEIPTS, check_answers
from ledgence_worker.delivery.ports import AckQueue, DispatchPublisher, PublishStatus, ReceiptStatus
from ledgence_worker.delivery.reference import REFERENCE_BYTES

#: This delivery is over, and nothing is left to do with it.
ENDED = {ReceiptStatus.DONE, ReceiptStatus.OVER}


class AdapterMessages(AdapterCase):
    """What is sent comes, as it was, to one receiver at a time, until it is acknowledged."""

    #: How many threads receive at once, and how many messages they share.
    receivers: ClassVar[int] = 6
    shared_messages: ClassVar[int] = 300

    def test_batches_of_every_size_are_confirmed_and_come(
        self, publisher: DispatchPublisher, ack_queue: AckQueue
    ) -> None:
        for size in range(1, publisher.batch_max + 1):
            bodies = [f"{size}/{n}" for n in range(size)]
            self.send(publisher, *bodies)
            messages = self.receive(ack_queue, size)
            assert sorted(message.body for message in messages) == sorted(bodies)
            answers = check_answers(ack_queue.acknowledge, [message.receipt for message in messages])
            assert {answer.status for answer in answers} == {ReceiptStatus.DONE}
        self.see_nothing(ack_queue)

    def test_a_publication_may_be_sent_again(self, publisher: DispatchPublisher, ack_queue: AckQueue) -> None:
        batch = entries("once more")
        for _ in range(2):
            [result] = publisher.publish(batch)
            assert result.status is PublishStatus.CONFIRMED
        assert self.receive(ack_queue, 1)[0].body == "once more"

    def test_the_largest_bodies_come_back_byte_for_byte(
        self, publisher: DispatchPublisher, ack_queue: AckQueue
    ) -> None:
        size = REFERENCE_BYTES - 1
        bodies = ["x" * size, "é" * (size // 2), "\U0001f600" * (size // 4), '"\\/<&>' * (size // 6)]
        bodies *= max(1, publisher.batch_max // len(bodies))
        self.send(publisher, *bodies)
        assert sorted(message.body for message in self.receive(ack_queue, len(bodies))) == sorted(bodies)

    def test_every_character_of_a_reference_comes_back(self, publisher: DispatchPublisher, ack_queue: AckQueue) -> None:
        # Names are printable; JSON has the line breaks and tabs of its layout besides.
        characters = "\t\n\r" + "".join(c for c in map(chr, range(sys.maxunicode + 1)) if c.isprintable())
        step = (REFERENCE_BYTES - 1) // 4
        bodies = [f"[{characters[start : start + step]}]" for start in range(0, len(characters), step - 1)]
        self.send(publisher, *bodies)
        assert sorted(message.body for message in self.receive(ack_queue, len(bodies))) == sorted(bodies)

    def test_a_message_is_given_to_one_receiver_at_a_time(
        self, physical_queue: PhysicalQueue, publisher: DispatchPublisher, ack_queue: AckQueue
    ) -> None:
        self.send(publisher, "hidden")
        [message] = self.receive(ack_queue, 1)
        self.see_nothing(ack_queue)
        with closed(physical_queue.ack_queue()) as other:
            self.see_nothing(other)
        assert [answer.status for answer in ack_queue.acknowledge([message.receipt])] == [ReceiptStatus.DONE]

    def test_a_message_that_is_given_back_comes_again_under_another_receipt(
        self, publisher: DispatchPublisher, ack_queue: AckQueue
    ) -> None:
        self.send(publisher, "given back")
        [first] = self.receive(ack_queue, 1)
        assert [answer.status for answer in ack_queue.give_back([first.receipt])] == [ReceiptStatus.DONE]
        [second] = self.receive(ack_queue, 1)
        assert (second.message_id, second.body) == (first.message_id, "given back")
        assert second.receipt != first.receipt
        # Of the first delivery nothing is left; brokers differ in what they still do with its receipt.
        for call in (ack_queue.give_back, ack_queue.acknowledge):
            check_answers(call, [first.receipt])

    def test_a_message_comes_again_after_its_visibility_unless_it_was_acknowledged(
        self, request: pytest.FixtureRequest
    ) -> None:
        is_brief = self.visibility_seconds is not None
        queue: PhysicalQueue = request.getfixturevalue("brief_queue" if is_brief else "physical_queue")
        with closed(queue.publisher()) as publisher, closed(queue.ack_queue()) as ack_queue:
            self.send(publisher, "kept", "removed")
            received = {message.body: message for message in self.receive(ack_queue, 2)}
            [answer] = ack_queue.acknowledge([received["removed"].receipt])
            assert answer.status is ReceiptStatus.DONE
            if self.visibility_seconds is None:
                ack_queue.give_back([received["kept"].receipt])
            [again] = self.receive(ack_queue, 1, hidden_seconds=self.visibility_seconds or 0.0)
            assert (again.message_id, again.body) == (received["kept"].message_id, "kept")
            check_answers(ack_queue.acknowledge, [received["kept"].receipt])
            assert {answer.status for answer in ack_queue.acknowledge([again.receipt])} <= ENDED
            self.see_nothing(ack_queue)

    def test_acknowledging_removes_one_message_and_no_other(
        self, publisher: DispatchPublisher, ack_queue: AckQueue
    ) -> None:
        self.send(publisher, "a", "b", "c")
        received = self.receive(ack_queue, 3)
        # Neither the first nor the last: where a position is kept instead, the one before it would go as well.
        assert [answer.status for answer in ack_queue.acknowledge([received[1].receipt])] == [ReceiptStatus.DONE]
        answers = check_answers(ack_queue.give_back, [received[2].receipt, received[0].receipt])
        assert {answer.status for answer in answers} == {ReceiptStatus.DONE}
        left = self.receive(ack_queue, 2)
        assert sorted(message.body for message in left) == sorted([received[0].body, received[2].body])
        check_answers(ack_queue.acknowledge, [message.receipt for message in left])
        self.see_nothing(ack_queue)

    def test_acknowledging_twice_is_no_failure(self, publisher: DispatchPublisher, ack_queue: AckQueue) -> None:
        self.send(publisher, "twice")
        [message] = self.receive(ack_queue, 1)
        assert [answer.status for answer in ack_queue.acknowledge([message.receipt])] == [ReceiptStatus.DONE]
        assert {answer.status for answer in ack_queue.acknowledge([message.receipt])} <= ENDED
        check_answers(ack_queue.give_back, [message.receipt])
        self.see_nothing(ack_queue)

    def test_a_bad_receipt_does_not_spoil_the_good_ones(
        self, publisher: DispatchPublisher, ack_queue: AckQueue
    ) -> None:
        self.send(publisher, "good")
        for call in (ack_queue.give_back, ack_queue.acknowledge):
            [message] = self.receive(ack_queue, 1)
            batch = [FOREIGN_RECEIPTS[0], message.receipt][-ack_queue.batch_max :]
            assert check_answers(call, batch)[-1].status is ReceiptStatus.DONE
        self.see_nothing(ack_queue)

    def test_a_receiver_that_waits_gets_what_is_sent_meanwhile(
        self, publisher: DispatchPublisher, ack_queue: AckQueue
    ) -> None:
        with begun(lambda: ack_queue.receive(1, self.patience_seconds)) as waiting:
            began = time.monotonic()
            self.send(publisher, "awaited")
            assert [message.body for message in waiting.result()] == ["awaited"]
        assert time.monotonic() - began < self.patience_seconds

    def test_several_receivers_lose_nothing_and_double_nothing(
        self, physical_queue: PhysicalQueue, publisher: DispatchPublisher, ack_queue: AckQueue
    ) -> None:
        bodies = [f"body {n}" for n in range(self.shared_messages)]
        received: Counter[str] = Counter()
        refused: list[object] = []
        changed = threading.Condition()
        give_up = time.monotonic() + 3 * self.patience_seconds

        def is_over() -> bool:
            with changed:
                return received.total() >= len(bodies) or time.monotonic() > give_up

        def receive(queue: AckQueue) -> None:
            while not is_over():
                messages = queue.receive(queue.batch_max, 1.0)
                answers = queue.acknowledge([message.receipt for message in messages])
                with changed:
                    received.update(message.body for message in messages)
                    refused.extend(answer for answer in answers if answer.status is not ReceiptStatus.DONE)

        with contextlib.ExitStack() as stack:
            # Half of them share one end, as one worker's threads may; the others have their own.
            own = [stack.enter_context(closed(physical_queue.ack_queue())) for _ in range(self.receivers // 2)]
            shared = [ack_queue] * (self.receivers - len(own))
            threads = stack.enter_context(ThreadPoolExecutor(self.receivers + 2))
            running = [threads.submit(receive, queue) for queue in (*own, *shared)]
            running += [threads.submit(self.send, publisher, *half) for half in (bodies[::2], bodies[1::2])]
            for each in running:
                each.result()
        assert refused == []
        assert received == Counter(bodies)
        self.see_nothing(ack_queue)
