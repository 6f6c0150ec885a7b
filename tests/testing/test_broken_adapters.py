"""The suite for adapters finds adapters that break a rule."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ledgence.testing.delivery import MemoryBroker
from ledgence.testing.delivery.conformance import AdapterConformance
from ledgence.testing.delivery.memory_ends import MemoryAckQueue, MemoryPublisher
from ledgence_worker.delivery.ports import (
    Inspection,
    Message,
    Publication,
    Published,
    PublishStatus,
    ReceiptAnswer,
    ReceiptStatus,
)
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable
from tests.testing.test_conformance import MemoryOutage


class Broken(MemoryBroker):
    """A broker whose ends can be replaced by broken ones."""

    publisher_class: type[MemoryPublisher] = MemoryPublisher
    ack_queue_class: type[MemoryAckQueue] = MemoryAckQueue

    def publisher(self) -> MemoryPublisher:
        return self.publisher_class(self)

    def ack_queue(self) -> MemoryAckQueue:
        return self.ack_queue_class(self)


class AnswersTheFirstOnly(MemoryPublisher):
    def publish(self, batch: Sequence[Publication]) -> Sequence[Published]:
        return super().publish(batch)[:1]


class AnswersOfAnother(MemoryPublisher):
    def publish(self, batch: Sequence[Publication]) -> Sequence[Published]:
        results = super().publish(batch)
        return [replace(result, publication_id=results[0].publication_id) for result in results]


class ConfirmsWithoutAnId(MemoryPublisher):
    def publish(self, batch: Sequence[Publication]) -> Sequence[Published]:
        return [replace(result, message_id=None) for result in super().publish(batch)]


class CutsTheBatch(MemoryPublisher):
    def publish(self, batch: Sequence[Publication]) -> Sequence[Published]:
        return super().publish(batch[: self.batch_max])


class StripsTheBody(MemoryPublisher):
    def publish(self, batch: Sequence[Publication]) -> Sequence[Published]:
        return super().publish([replace(publication, body=publication.body.strip("\t\n\r[]")) for publication in batch])


class BlamesTheEntries(MemoryPublisher):
    def publish(self, batch: Sequence[Publication]) -> Sequence[Published]:
        try:
            return super().publish(batch)
        except (BrokerRefused, BrokerUnavailable):
            refused = PublishStatus.REFUSED
            return [Published(publication_id=publication.publication_id, status=refused) for publication in batch]


class ItsOwnAddress(MemoryAckQueue):
    def inspect(self) -> Inspection:
        return replace(super().inspect(), address="another")


class IsBlindToOutages(MemoryAckQueue):
    def receive(self, count: int, wait_seconds: float) -> Sequence[Message]:
        try:
            return super().receive(count, wait_seconds)
        except (BrokerRefused, BrokerUnavailable):
            return []


class GivesMoreThanAsked(MemoryAckQueue):
    def receive(self, count: int, wait_seconds: float) -> Sequence[Message]:
        return super().receive(count + 1, wait_seconds)


class DoesNotWait(MemoryAckQueue):
    def receive(self, count: int, wait_seconds: float) -> Sequence[Message]:
        return super().receive(count, 0.0)


class RemovesAtReceipt(MemoryAckQueue):
    def receive(self, count: int, wait_seconds: float) -> Sequence[Message]:
        messages = super().receive(count, wait_seconds)
        super().acknowledge([message.receipt for message in messages])
        return messages


class HidesNothing(MemoryAckQueue):
    def receive(self, count: int, wait_seconds: float) -> Sequence[Message]:
        messages = super().receive(count, wait_seconds)
        super().give_back([message.receipt for message in messages])
        return messages


class KeepsAPosition(MemoryAckQueue):
    """A stream: acknowledging a message acknowledges all before it."""

    def acknowledge(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        numbers = [int(receipt.rpartition("/")[2]) for receipt in receipts if receipt.rpartition("/")[2].isdigit()]
        for number in range(1, max(numbers, default=0)):
            super().acknowledge([f"memory/message-{number}/{number}"])
        return super().acknowledge(receipts)


class ClaimsToAcknowledge(MemoryAckQueue):
    def acknowledge(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        return [ReceiptAnswer(receipt=receipt, status=ReceiptStatus.DONE) for receipt in receipts]


class ClaimsToGiveBack(MemoryAckQueue):
    def give_back(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        return [ReceiptAnswer(receipt=receipt, status=ReceiptStatus.DONE) for receipt in receipts]


class RaisesForABadReceipt(MemoryAckQueue):
    def acknowledge(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        if not all(receipt.startswith("memory/") for receipt in receipts):
            raise BrokerRefused("The receipt is no receipt.")
        return super().acknowledge(receipts)


class FailsTheSecondTime(MemoryAckQueue):
    def acknowledge(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        return [
            replace(answer, status=ReceiptStatus.FAILED) if answer.status is ReceiptStatus.OVER else answer
            for answer in super().acknowledge(receipts)
        ]


class SpoilsTheBatch(MemoryAckQueue):
    def acknowledge(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        if all(receipt.startswith("memory/") for receipt in receipts):
            return super().acknowledge(receipts)
        return [ReceiptAnswer(receipt=receipt, status=ReceiptStatus.FAILED) for receipt in receipts]


class Suite(AdapterConformance):
    visibility_seconds = 0.2
    patience_seconds = 0.5
    outage_seconds = 0.5
    shared_messages = 40


type Rule = Callable[..., None]

BROKEN: dict[type[MemoryPublisher | MemoryAckQueue], Rule] = {
    AnswersTheFirstOnly: Suite.test_each_entry_is_answered_once_by_its_id,
    AnswersOfAnother: Suite.test_each_entry_is_answered_once_by_its_id,
    ConfirmsWithoutAnId: Suite.test_each_entry_is_answered_once_by_its_id,
    CutsTheBatch: Suite.test_more_entries_than_a_batch_are_answered_or_refused_before_anything_is_sent,
    StripsTheBody: Suite.test_every_character_of_a_reference_comes_back,
    BlamesTheEntries: Suite.test_no_entry_is_blamed_for_a_missing_queue,
    ItsOwnAddress: Suite.test_both_sides_tell_the_same_address,
    IsBlindToOutages: Suite.test_a_receiver_that_waits_is_told_of_an_outage,
    GivesMoreThanAsked: Suite.test_no_more_messages_come_than_were_asked_for,
    DoesNotWait: Suite.test_a_receiver_that_waits_gets_what_is_sent_meanwhile,
    RemovesAtReceipt: Suite.test_a_message_comes_again_after_its_visibility_unless_it_was_acknowledged,
    HidesNothing: Suite.test_a_message_is_given_to_one_receiver_at_a_time,
    KeepsAPosition: Suite.test_acknowledging_removes_one_message_and_no_other,
    ClaimsToAcknowledge: Suite.test_a_message_comes_again_after_its_visibility_unless_it_was_acknowledged,
    ClaimsToGiveBack: Suite.test_acknowledging_removes_one_message_and_no_other,
    RaisesForABadReceipt: Suite.test_receipts_are_taken_in_batches_of_every_size,
    FailsTheSecondTime: Suite.test_acknowledging_twice_is_no_failure,
    SpoilsTheBatch: Suite.test_a_bad_receipt_does_not_spoil_the_good_ones,
}


def check(rule: Rule, end: type[MemoryPublisher | MemoryAckQueue] | None) -> None:
    """Run one of the suite's tests with an adapter that is broken at one end, or at none."""
    broker, brief, missing = Broken(visibility_seconds=60), Broken(visibility_seconds=0.2), Broken()
    missing.is_missing = True
    for each in (broker, brief, missing):
        if end is not None and issubclass(end, MemoryPublisher):
            each.publisher_class = end
        elif end is not None:
            each.ack_queue_class = end
    fixtures: dict[str, Any] = {
        "physical_queue": broker,
        "publisher": broker.publisher(),
        "ack_queue": broker.ack_queue(),
        "outage": MemoryOutage(broker),
        "missing_publisher": missing.publisher(),
        "missing_ack_queue": missing.ack_queue(),
        "request": SimpleNamespace(getfixturevalue=lambda name: brief),
    }
    rule(Suite(), **{name: fixtures[name] for name in list(inspect.signature(rule).parameters)[1:]})


@pytest.mark.parametrize("end", BROKEN, ids=lambda end: end.__name__)
def test_a_broken_adapter_is_found(end: type[MemoryPublisher | MemoryAckQueue]) -> None:
    check(BROKEN[end], None)
    with pytest.raises((AssertionError, pytest.fail.Exception, BrokerRefused)):
        check(BROKEN[end], end)
