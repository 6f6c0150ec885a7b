"""What the SQS receiver tells of messages and receipts when a call goes wrong, and what the broker has of them then."""

import time
from collections.abc import Sequence

import pytest

from ledgence_project.elasticmq import SqsProcess
from ledgence_worker.delivery.ports import AckQueue, Message, ReceiptAnswer, ReceiptStatus
from ledgence_worker.delivery.sqs.options import SqsOptions
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable
from tests.brokers.faults import proxy as faults
from tests.brokers.faults.broker_state import depth, drained, put
from tests.brokers.faults.conftest import SLACK_SECONDS, TIMEOUT_SECONDS

pytestmark = pytest.mark.broker

DELETE, GIVE_BACK = "DeleteMessageBatch", "ChangeMessageVisibilityBatch"
WITH_EFFECT = (faults.lost, faults.late, faults.cut, faults.broken_after)
WITHOUT_EFFECT = (faults.broken, faults.unavailable, faults.reset, faults.hanging, faults.throttled)


@pytest.mark.parametrize("fault", [*WITH_EFFECT, *WITHOUT_EFFECT], ids=lambda fault: fault.__name__)
def test_a_receive_that_fails_is_told_and_loses_nothing(server, options, proxy, queue, fault) -> None:
    put(server, options, "a")
    proxy.spoil("ReceiveMessage", fault)
    began = time.monotonic()
    with pytest.raises(BrokerUnavailable, match="ReceiveMessage"):
        queue.receive(1, 0)
    assert time.monotonic() - began < TIMEOUT_SECONDS + SLACK_SECONDS
    assert proxy.seen == ["ReceiveMessage"]
    # What the broker gave out and nobody got is hidden until its visibility is over.
    assert [message.body for message in queue.receive(10, 0)] == ([] if fault in WITH_EFFECT else ["a"])
    assert depth(server, options) == 1


def test_a_receive_that_is_denied_is_in_vain(server, options, proxy, queue) -> None:
    put(server, options, "a")
    proxy.spoil("ReceiveMessage", faults.denied)
    with pytest.raises(BrokerRefused, match="may not do sqs:ReceiveMessage"):
        queue.receive(1, 0)
    assert [message.body for message in queue.receive(10, 0)] == ["a"]


def test_half_of_an_answer_is_no_message(server, options, proxy, queue) -> None:
    put(server, options, "a")
    proxy.spoil("ReceiveMessage", faults.truncated)
    assert list(queue.receive(1, 0)) == []
    assert depth(server, options) == 1


def receipts_of(server: SqsProcess, options: SqsOptions, queue: AckQueue, *bodies: str) -> list[str]:
    """Receive messages with these bodies, and return their receipts in this order."""
    put(server, options, *bodies)
    received: dict[str, Message] = {}
    give_up = time.monotonic() + SLACK_SECONDS
    while len(received) < len(bodies) and time.monotonic() < give_up:
        received |= {message.body: message for message in queue.receive(10, 1)}
    return [received[body].receipt for body in bodies]


def acknowledge(queue: AckQueue, receipts: Sequence[str]) -> list[ReceiptStatus]:
    return answered(queue.acknowledge(receipts), receipts)


def give_back(queue: AckQueue, receipts: Sequence[str]) -> list[ReceiptStatus]:
    return answered(queue.give_back(receipts), receipts)


def answered(answers: Sequence[ReceiptAnswer], receipts: Sequence[str]) -> list[ReceiptStatus]:
    told = {answer.receipt: answer.status for answer in answers}
    assert len(answers) == len(receipts)
    return [told[receipt] for receipt in receipts]


@pytest.mark.parametrize("fault", [*WITH_EFFECT, *WITHOUT_EFFECT], ids=lambda fault: fault.__name__)
def test_an_acknowledgement_is_repeated_until_it_is_known(server, options, proxy, queue, fault) -> None:
    receipts = receipts_of(server, options, queue, "a", "b")
    proxy.spoil(DELETE, fault)
    # Whether the first or the second call removed them is of no interest to anybody.
    assert set(acknowledge(queue, receipts)) <= {ReceiptStatus.DONE, ReceiptStatus.OVER}
    assert proxy.seen.count(DELETE) == 2
    assert depth(server, options) == 0


@pytest.mark.parametrize("fault", [*WITH_EFFECT, *WITHOUT_EFFECT, faults.denied], ids=lambda fault: fault.__name__)
def test_an_acknowledgement_that_fails_for_ever_is_told_in_time(server, options, proxy, queue, fault) -> None:
    receipts = receipts_of(server, options, queue, "a", "b")
    proxy.always[DELETE] = fault
    began = time.monotonic()
    assert acknowledge(queue, receipts) == [ReceiptStatus.FAILED] * 2
    assert time.monotonic() - began < 3 * TIMEOUT_SECONDS + SLACK_SECONDS
    assert proxy.seen.count(DELETE) == (1 if fault is faults.denied else 3)
    assert depth(server, options) == (0 if fault in WITH_EFFECT else 2)


@pytest.mark.parametrize("fault", [*WITH_EFFECT, *WITHOUT_EFFECT, faults.denied], ids=lambda fault: fault.__name__)
def test_what_is_given_back_and_not_known_to_be_comes_again_or_stays_hidden(
    server, options, proxy, queue, fault
) -> None:
    receipts = receipts_of(server, options, queue, "a", "b")
    proxy.always[GIVE_BACK] = fault
    assert give_back(queue, receipts) == [ReceiptStatus.FAILED] * 2
    assert drained(server, options) == (["a", "b"] if fault in WITH_EFFECT else [])


@pytest.mark.parametrize(
    ("fault", "told", "left"),
    [
        pytest.param(faults.failing(1), "done failed done", 1, id="failing"),
        pytest.param(faults.failing(1, code="ReceiptHandleIsInvalid", is_senders=True), "done over done", 1, id="over"),
        pytest.param(faults.omitting(1), "done failed done", 0, id="omitting"),
        pytest.param(faults.rewriting(faults.with_another_id), "failed failed failed", 0, id="other_ids"),
        pytest.param(faults.truncated, "failed failed failed", 0, id="truncated"),
    ],
)
def test_each_receipt_is_told_as_what_is_known_of_it(server, options, proxy, queue, fault, told, left) -> None:
    receipts = receipts_of(server, options, queue, "a", "b", "c")
    proxy.spoil(DELETE, fault)
    assert acknowledge(queue, receipts) == told.split()
    assert depth(server, options) == left


@pytest.mark.parametrize(
    "fault", [*WITH_EFFECT, *WITHOUT_EFFECT, faults.truncated, faults.denied], ids=lambda fault: fault.__name__
)
def test_an_inspection_is_refused_only_when_it_is_in_vain(proxy, publisher, queue, fault) -> None:
    proxy.always["GetQueueAttributes"] = fault
    for end in (publisher, queue):
        with pytest.raises(BrokerRefused if fault is faults.denied else BrokerUnavailable):
            end.inspect()
    del proxy.always["GetQueueAttributes"]
    assert publisher.inspect() == queue.inspect()
