"""The broker in memory fails as it is told, the same way on the same seed, and tells what happened."""

import subprocess
import sys
import threading
import time
from uuid import UUID, uuid4

import pytest

from ledgence.testing.delivery import Call, Faults, MemoryBroker
from ledgence_worker.delivery.ports import AckQueue, DispatchPublisher, Publication, PublishStatus, ReceiptStatus
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable


def batch(count: int) -> list[Publication]:
    return [Publication(publication_id=UUID(int=n + 1), body=f"body {n}") for n in range(count)]


def ends(broker: MemoryBroker) -> tuple[DispatchPublisher, AckQueue]:
    return broker.publisher(), broker.ack_queue()


def story(seed: int) -> list[object]:
    """Send, receive and acknowledge under every fault, and return all that was answered."""
    faults = Faults(duplicated=0.3, reordered=0.5, lost=0.1, failed=0.2, uncertain=0.2, receipt_failed=0.3)
    broker = MemoryBroker(seed=seed, faults=faults)
    publisher, queue = ends(broker)
    answers: list[object] = [publisher.publish(batch(10)) for _ in range(5)]
    while messages := queue.receive(10, 0):
        answers.append(messages)
        answers.append(queue.acknowledge([message.receipt for message in messages]))
    return answers


def test_the_same_seed_gives_the_same_faults() -> None:
    assert story(7) == story(7)
    assert story(7) != story(8)


def test_each_fault_is_seen() -> None:
    publisher, queue = ends(broker := MemoryBroker(faults=Faults(duplicated=1)))
    publisher.publish(batch(1))
    assert [message.body for message in queue.receive(10, 0)] == ["body 0", "body 0"]

    broker.faults = Faults(lost=1)
    assert [result.status for result in publisher.publish(batch(2))] == [PublishStatus.CONFIRMED] * 2
    assert queue.receive(10, 0) == []

    broker.faults = Faults(failed=1)
    assert [result.status for result in publisher.publish(batch(2))] == [PublishStatus.FAILED] * 2
    assert queue.receive(10, 0) == []

    broker.faults = Faults(uncertain=1)
    assert [(result.status, result.message_id) for result in publisher.publish(batch(1))] == [
        (PublishStatus.UNCERTAIN, None)
    ]
    assert len(queue.receive(10, 0)) == 1

    broker.faults = Faults(reordered=1)
    publisher.publish(batch(10))
    received = [message.body for message in queue.receive(10, 0)]
    assert received != sorted(received)
    assert sorted(received) == [f"body {n}" for n in range(10)]


def test_a_failed_receipt_was_carried_out_or_not() -> None:
    publisher, queue = ends(broker := MemoryBroker(faults=Faults(receipt_failed=1)))
    publisher.publish(batch(10))
    answers = queue.acknowledge([message.receipt for message in queue.receive(10, 0)])
    assert {answer.status for answer in answers} == {ReceiptStatus.FAILED}
    assert 0 < broker.counts.acknowledged < 10
    assert broker.in_flight == 10 - broker.counts.acknowledged


def test_a_broker_that_is_down_fails_as_the_ports_say() -> None:
    publisher, queue = ends(broker := MemoryBroker())
    publisher.publish(batch(1))
    receipt = queue.receive(1, 0)[0].receipt
    broker.is_down = True
    for call in (publisher.inspect, queue.inspect, lambda: publisher.publish(batch(1)), lambda: queue.receive(1, 0)):
        with pytest.raises(BrokerUnavailable, match="down"):
            call()
    assert [answer.status for answer in queue.acknowledge([receipt])] == [ReceiptStatus.FAILED]
    broker.is_down = False
    assert [answer.status for answer in queue.acknowledge([receipt])] == [ReceiptStatus.DONE]


@pytest.mark.parametrize("switch", ["is_down", "is_missing", "is_throttled"])
def test_a_receiver_that_waits_notices_a_switch_at_once(switch: str) -> None:
    broker = MemoryBroker()
    raised: list[Exception] = []

    def receive() -> None:
        try:
            broker.ack_queue().receive(1, 60)
        except (BrokerUnavailable, BrokerRefused) as error:
            raised.append(error)

    thread = threading.Thread(target=receive)
    thread.start()
    assert broker.wait_until(lambda broker: broker.counts.calls[Call.RECEIVE] == 1)
    setattr(broker, switch, True)
    thread.join(10)
    assert [type(error) for error in raised] == [BrokerRefused if switch == "is_missing" else BrokerUnavailable]


def test_a_throttled_broker_takes_no_entry() -> None:
    publisher, queue = ends(broker := MemoryBroker())
    broker.is_throttled = True
    assert [result.status for result in publisher.publish(batch(3))] == [PublishStatus.FAILED] * 3
    with pytest.raises(BrokerUnavailable, match="throttles"):
        queue.receive(1, 0)
    assert broker.sent == []


def test_a_refused_entry_is_named_by_its_publication_or_by_what_it_holds() -> None:
    publisher, _ = ends(broker := MemoryBroker())
    task = uuid4()
    entries = [*batch(2), Publication(publication_id=uuid4(), body=f'{{"task":"{task}"}}')]
    broker.refuse(task)
    broker.refuse(entries[0].publication_id)
    told = {result.publication_id: result.status for result in publisher.publish(entries)}
    assert [told[entry.publication_id] for entry in entries] == [
        PublishStatus.REFUSED,
        PublishStatus.CONFIRMED,
        PublishStatus.REFUSED,
    ]
    assert broker.sent == [entries[1]]


def test_a_lost_reply_is_lost_once_and_the_call_has_its_effect() -> None:
    publisher, queue = ends(broker := MemoryBroker())
    for call in Call:
        broker.lose_next_reply(call)
    assert [result.status for result in publisher.publish(batch(2))] == [PublishStatus.UNCERTAIN] * 2
    with pytest.raises(BrokerUnavailable, match="lost"):
        queue.receive(1, 0)
    assert (broker.waiting, broker.in_flight) == (1, 1)
    [message] = queue.receive(10, 0)
    assert [answer.status for answer in queue.give_back([message.receipt])] == [ReceiptStatus.FAILED]
    [message] = queue.receive(10, 0)
    assert [answer.status for answer in queue.acknowledge([message.receipt])] == [ReceiptStatus.FAILED]
    assert (broker.waiting, broker.in_flight) == (0, 1)
    assert [result.status for result in publisher.publish(batch(1))] == [PublishStatus.CONFIRMED]
    assert (broker.counts.acknowledged, broker.counts.given_back, broker.counts.confirmed) == (1, 1, 1)


def test_messages_come_back_when_their_visibility_ends_and_never_when_all_are_lost() -> None:
    broker = MemoryBroker(visibility_seconds=0.05)
    queue = broker.ack_queue()
    broker.put("not a reference")
    [first] = queue.receive(1, 0)
    assert broker.wait_until(lambda broker: broker.waiting == 1)
    [second] = queue.receive(1, 0)
    assert (second.message_id, second.body) == (first.message_id, "not a reference")
    assert second.receipt != first.receipt
    broker.visibility_seconds = 60
    assert queue.receive(1, 1)[0].message_id == first.message_id
    assert queue.receive(1, 0) == []
    broker.end_visibility()
    assert broker.waiting == 1
    broker.lose_all()
    assert (broker.waiting, broker.in_flight) == (0, 0)


def test_waiting_for_what_does_not_happen_ends() -> None:
    began = time.monotonic()
    assert not MemoryBroker().wait_until(lambda broker: broker.waiting == 1, seconds=0.05)
    assert time.monotonic() - began < 10


def test_it_is_imported_without_django() -> None:
    code = "import sys; sys.modules['django'] = None; import ledgence.testing.delivery"
    subprocess.run([sys.executable, "-c", code], check=True)
