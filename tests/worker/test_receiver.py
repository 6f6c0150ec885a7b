"""The receiver: asks for what is free, gives everything to its claimer or back, and outlasts every broker."""

import threading

import pytest

from ledgence.testing.delivery import MemoryBroker
from ledgence_worker.acknowledger import Acknowledger
from ledgence_worker.claimer import Claimer
from ledgence_worker.delivery.ports import Message
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable
from ledgence_worker.receiver import SILENCE_SECONDS, Receiver
from tests.worker.fakes import FakeClock, FakeTaskService, make_shared, wait_for
from tests.worker.routed import QUEUE, SpyQueue, body_of, make_queue


class Fixture:
    def __init__(self, *, batch_max: int = 10, **settings) -> None:
        self.service = FakeTaskService()
        self.clock = FakeClock()
        self.shared = make_shared(self.service, self.clock, **{"receive_wait_seconds": 0} | settings)
        self.broker = MemoryBroker(batch_max=batch_max)
        self.spy = SpyQueue(self.broker)
        queue = make_queue(self.spy)
        self.claimer = Claimer(self.shared, queue, Acknowledger(queue, self.clock), channel=2)
        self.receiver = Receiver(self.shared, queue, self.claimer)

    def submit(self, count: int) -> None:
        self.broker.put(*map(body_of, self.service.submit(count, queue=QUEUE)))

    def step(self) -> None:
        self.receiver.step(self.receiver._share.reserve())

    @property
    def handed_over(self) -> int:
        return len(self.claimer._messages)

    @property
    def slots(self) -> tuple[int, int, int]:
        slots = self.shared.slots
        return slots.free, slots.asked, slots.occupied

    def fail(self, *errors: Exception) -> None:
        self.spy.receives.extend(errors)

    def update(self) -> None:
        self.shared.stopping.update(self.clock.now)


def test_as_many_messages_are_asked_for_as_slots_are_free():
    fixture = Fixture(receive_wait_seconds=7)
    fixture.submit(3)
    fixture.step()
    assert (fixture.spy.counts, fixture.spy.waits) == ([4], [7])
    assert (fixture.handed_over, fixture.slots) == (3, (1, 3, 0))
    fixture.submit(3)
    fixture.step()
    assert fixture.spy.counts == [4, 1]
    assert (fixture.handed_over, fixture.slots) == (4, (0, 4, 0))


@pytest.mark.parametrize(("batch_max", "most"), [(10, 10), (100, 32)])
def test_one_receive_asks_for_no_more_than_one_call_and_one_claim_take(batch_max, most):
    fixture = Fixture(concurrency=64, batch_max=batch_max)
    fixture.submit(1)
    fixture.step()
    assert fixture.spy.counts == [most]
    assert fixture.slots == (63, 1, 0)


def test_empty_receives_that_come_at_once_make_no_hot_loop():
    fixture = Fixture()
    for _ in range(8):
        fixture.step()
    pauses = fixture.clock.pauses
    assert len(pauses) == 8
    assert 0.5 <= pauses[-1] <= 1.0
    assert fixture.slots == (4, 0, 0)


def test_an_empty_receive_that_waited_is_followed_by_the_next_at_once():
    fixture = Fixture()
    fixture.spy.before_receive = lambda: fixture.clock.advance(10)
    for _ in range(3):
        fixture.step()
    assert fixture.clock.pauses == []


def test_more_messages_than_asked_for_are_given_back(caplog):
    fixture = Fixture(concurrency=1)
    fixture.submit(3)
    fixture.spy.receives.append(lambda: fixture.spy.inner.receive(3, 0))
    fixture.step()
    assert (fixture.handed_over, fixture.slots) == (1, (0, 1, 0))
    assert fixture.broker.waiting == 2
    assert "more messages than asked for" in caplog.text


@pytest.mark.parametrize(
    "error",
    [BrokerUnavailable("down"), BrokerRefused("queue deleted"), ZeroDivisionError("a bug"), OSError("no route")],
    ids=["unavailable", "refused", "bug", "network"],
)
def test_whatever_the_broker_does_slots_are_free_meanwhile_and_it_is_asked_again(error, caplog):
    fixture = Fixture()
    free: list[tuple[int, int, int]] = []
    wait = fixture.clock.wait

    def pause(event, seconds):
        free.append(fixture.slots)
        return wait(event, seconds)

    fixture.clock.wait = pause  # type: ignore[method-assign]
    fixture.fail(*[error] * 9)
    for _ in range(9):
        fixture.step()
    assert free == [(4, 0, 0)] * 9
    told = [record.getMessage() for record in caplog.records if "broker not available" in record.getMessage()]
    assert [line.partition("tries=")[2].split()[0] for line in told] == ["1", "2", "4", "8"]
    assert all(f"queue={QUEUE}" in line for line in told)
    assert 0.05 <= fixture.clock.pauses[0] <= 0.1
    assert 2.5 <= fixture.clock.pauses[-1] <= 5.0
    fixture.submit(1)
    fixture.step()
    assert fixture.handed_over == 1


def test_another_reason_is_told_at_once(caplog):
    """As a broker that comes back without its queues: whoever looks must not find what was wrong before."""
    fixture = Fixture()
    fixture.fail(*[BrokerUnavailable("down")] * 3, *[BrokerRefused("no queue")] * 3)
    for _ in range(6):
        fixture.step()
    lines = [r.getMessage() for r in caplog.records if "broker not available" in r.getMessage()]
    assert [line.partition("tries=")[2] for line in lines] == [
        "1 error=down",
        "2 error=down",
        "4 error=no queue",
    ]
    fixture.fail(*[BrokerRefused("gone"), BrokerUnavailable("down")])
    for _ in range(2):
        fixture.step()
    lines = [r.getMessage() for r in caplog.records if "broker not available" in r.getMessage()]
    assert [line.partition("tries=")[2] for line in lines[3:]] == ["7 error=gone", "8 error=down"]


def test_a_long_silence_is_told_until_the_broker_answers():
    fixture = Fixture(receive_wait_seconds=10)
    fixture.fail(*[BrokerUnavailable("down")] * 3)
    told: list[str] = []
    wait = fixture.clock.wait

    def pause(event, seconds):
        told.append(fixture.receiver.silence)
        return wait(event, seconds)

    fixture.clock.wait = pause  # type: ignore[method-assign]
    fixture.step()
    fixture.clock.advance(10 + SILENCE_SECONDS)
    fixture.step()
    fixture.clock.advance(1)
    fixture.step()
    assert told == ["", "", "41 s: down"]
    fixture.submit(1)
    fixture.step()
    assert fixture.receiver.silence == ""
    fixture.fail(BrokerUnavailable("down"))
    fixture.step()
    # A new silence begins anew.
    assert told[3:] == [""]


def test_a_receive_that_never_returns_is_told():
    fixture = Fixture(receive_wait_seconds=10)
    hangs, ends = threading.Event(), threading.Event()

    def hang() -> list[Message]:
        hangs.set()
        ends.wait(10)
        return []

    fixture.spy.receives.append(hang)
    thread = threading.Thread(target=fixture.step, daemon=True)
    thread.start()
    assert hangs.wait(10)
    assert fixture.receiver.silence == ""
    fixture.clock.advance(10 + SILENCE_SECONDS + 1)
    assert fixture.receiver.silence == "41 s"
    ends.set()
    thread.join(10)
    assert fixture.receiver.silence == ""


def test_while_no_slot_is_free_the_broker_owes_nothing():
    fixture = Fixture()
    fixture.fail(BrokerUnavailable("down"))
    fixture.step()
    fixture.clock.advance(1000)
    # It waits for a slot now.
    assert fixture.receiver.silence == ""


def test_nothing_is_received_once_a_stop_was_requested():
    fixture = Fixture()
    capacity = fixture.shared.slots.reserve()
    fixture.shared.stopping.request("test")
    fixture.update()
    fixture.receiver.step(capacity)
    assert fixture.spy.journal == []
    assert fixture.slots == (4, 0, 0)


def test_what_comes_after_a_stop_is_given_back_at_once():
    fixture = Fixture()
    fixture.submit(2)
    fixture.spy.before_receive = lambda: fixture.shared.stopping.request("test")
    fixture.step()
    assert fixture.spy.journal == ["receive", "give_back"]
    assert (fixture.handed_over, fixture.slots, fixture.broker.waiting) == (0, (4, 0, 0), 2)


def test_what_comes_after_the_claimer_has_ended_is_given_back():
    fixture = Fixture()
    fixture.submit(2)
    fixture.claimer.close()
    fixture.step()
    assert (fixture.slots, fixture.broker.waiting) == ((4, 0, 0), 2)


def test_a_broker_that_takes_nothing_back_is_no_failure_of_the_worker(caplog):
    fixture = Fixture()
    fixture.submit(2)
    fixture.spy.before_receive = lambda: fixture.shared.stopping.request("test")

    def give_back(receipts):
        raise ZeroDivisionError("a bug")

    fixture.spy.give_back = give_back  # type: ignore[method-assign]
    fixture.step()
    assert fixture.slots == (4, 0, 0)
    assert "messages not given back" in caplog.text


def test_closed_slots_end_the_receiver_and_its_claimer():
    fixture = Fixture()
    fixture.shared.slots.close()
    fixture.receiver.run()
    assert not fixture.claimer.put([])
    assert fixture.spy.journal == []


def test_the_next_receive_is_out_while_a_batch_is_being_claimed():
    fixture = Fixture(concurrency=8, receive_wait_seconds=20)
    fixture.submit(4)
    claiming, goes_on = threading.Event(), threading.Event()
    call = fixture.service.claim

    def claim(command):
        claiming.set()
        goes_on.wait(10)
        return call(command)

    fixture.service.claim = claim  # type: ignore[method-assign]
    threads = [threading.Thread(target=run, daemon=True) for run in (fixture.receiver.run, fixture.claimer.run)]
    for thread in threads:
        thread.start()
    assert claiming.wait(10)
    wait_for(lambda: len(fixture.spy.counts) == 2, "another receive")
    assert fixture.spy.counts == [8, 4]
    goes_on.set()
    wait_for(lambda: fixture.shared.slots.occupied == 4, "the claim")
    fixture.shared.slots.close()
    fixture.shared.stopping.request("test")
    fixture.broker.put("the end")
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert fixture.broker.waiting == 1


def test_drain_ends_when_nothing_is_left_and_nothing_came():
    fixture = Fixture(drain=True, receive_wait_seconds=10)
    fixture.submit(1)
    fixture.step()
    assert fixture.spy.waits == [1]
    fixture.spy.receives.append(list)
    fixture.step()
    # Something is still to be claimed.
    assert not fixture.shared.stopping.is_requested
    fixture.claimer.step(fixture.claimer._take())
    fixture.claimer._in_hand = 0
    fixture.spy.receives.append(list)
    fixture.step()
    # It is active here.
    assert not fixture.shared.stopping.is_requested
    fixture.service.live.clear()
    fixture.shared.slots.exchange(freed=1)
    fixture.spy.receives.append(list)
    fixture.step()
    assert fixture.shared.stopping.is_requested


def test_drain_ends_though_the_broker_is_away_when_nothing_is_left():
    fixture = Fixture(drain=True)
    fixture.submit(1)
    fixture.fail(BrokerUnavailable("down"), BrokerUnavailable("down"))
    fixture.step()
    assert not fixture.shared.stopping.is_requested
    fixture.service.due.clear()
    fixture.step()
    assert fixture.shared.stopping.is_requested
