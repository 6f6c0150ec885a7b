"""The renewer: every quarter of the lease, undecided ones soon again, and the session as often."""

import threading

import pytest

from ledgence_worker.clock import SystemClock
from ledgence_worker.errors import SessionExpired, Unavailable
from ledgence_worker.renewal import EXTENSION_RETRY_SECONDS, RENEWAL_BATCH, Renewer
from tests.worker.fakes import DEADLINE_SECONDS, FakeClock, FakeTaskService, make_shared


class Fixture:
    def __init__(self, **kind) -> None:
        self.service = FakeTaskService(**kind)
        self.clock = FakeClock()
        self.shared = make_shared(self.service, self.clock, concurrency=1024)
        self.renewer = Renewer(self.shared, threading.Event())

    def hold(self, count=1):
        assignments = self.service.submit(count)
        self.service.due.clear()
        self.service.live |= {(a.task_id, a.number): a for a in assignments}
        return self.shared.keeper.hold(assignments, self.clock.now)


@pytest.fixture
def fixture():
    return Fixture()


def test_all_are_renewed_every_quarter_of_the_lease(fixture):
    first, second = fixture.hold(2)
    assert fixture.renewer.turn() == 15
    assert fixture.service.renewed == []
    fixture.clock.advance(15)
    assert fixture.renewer.turn() == 15
    assert fixture.service.renewed == [[first.key, second.key]]
    assert first.ends_at == fixture.clock.now + 60 - 5
    fixture.clock.advance(15)
    fixture.renewer.turn()
    assert len(fixture.service.renewed) == 2


def test_many_leases_go_in_batches(fixture):
    fixture.hold(RENEWAL_BATCH + 1)
    fixture.clock.advance(15)
    fixture.renewer.turn()
    assert [len(keys) for keys in fixture.service.renewed] == [RENEWAL_BATCH, 1]


def test_nothing_held_asks_nothing(fixture):
    fixture.clock.advance(15)
    fixture.renewer.turn()
    assert fixture.service.renewed == []


def test_busy_lease_is_asked_again_at_once_and_alone(fixture):
    locked, free = fixture.hold(2)
    fixture.service.locked.add(locked.key)
    fixture.clock.advance(15)
    assert 0 < fixture.renewer.turn() <= 0.1
    fixture.service.locked.clear()
    fixture.clock.advance(0.1)
    fixture.renewer.turn()
    assert fixture.service.renewed == [[locked.key, free.key], [locked.key]]
    assert locked.ends_at == fixture.clock.now + 60 - 5


def test_busy_lease_does_not_delay_the_round_of_the_others(fixture):
    locked, free = fixture.hold(2)
    fixture.service.locked.add(locked.key)
    for _ in range(400):
        fixture.clock.advance(0.1)
        fixture.renewer.turn()
    assert sum(free.key in keys for keys in fixture.service.renewed) == 2
    assert sum(keys == [locked.key] for keys in fixture.service.renewed) > 20
    assert not locked.is_over


def test_outage_is_repeated_with_growing_pauses_and_renews_again_afterwards(fixture):
    [authority] = fixture.hold()
    fixture.service.faults["renew"].extend([Unavailable("down")] * 4)
    fixture.clock.advance(15)
    pauses = []
    while fixture.service.faults["renew"]:
        pauses.append(fixture.renewer.turn())
        fixture.clock.advance(pauses[-1])
    assert pauses[0] <= 0.05
    assert 0.2 <= pauses[-1] <= 0.4
    fixture.renewer.turn()
    assert authority.ends_at == fixture.clock.now + 60 - 5


def test_settled_attempt_is_not_asked_again(fixture):
    [authority] = fixture.hold()
    fixture.service.locked.add(authority.key)
    fixture.clock.advance(15)
    fixture.renewer.turn()
    fixture.shared.keeper.forget([authority])
    fixture.clock.advance(0.1)
    fixture.renewer.turn()
    assert len(fixture.service.renewed) == 1


def test_session_is_extended_every_quarter_of_the_lease_after_the_renewals(fixture):
    fixture.hold()
    fixture.clock.advance(14)
    fixture.renewer.turn()
    assert fixture.service.extensions == 0
    fixture.clock.advance(1)
    fixture.service.faults["extend_session"].append(Unavailable("down"))
    assert fixture.renewer.turn() == EXTENSION_RETRY_SECONDS
    assert (len(fixture.service.renewed), fixture.service.extensions) == (1, 0)
    fixture.clock.advance(EXTENSION_RETRY_SECONDS)
    fixture.renewer.turn()
    assert fixture.service.extensions == 1


def test_a_short_session_is_extended_at_half_its_time():
    fixture = Fixture(session_seconds=20.0, lease_seconds=600.0)
    assert fixture.renewer.turn() == 10
    fixture.clock.advance(10)
    fixture.service.faults["extend_session"].append(Unavailable("down"))
    assert fixture.renewer.turn() == 2
    fixture.clock.advance(2)
    assert fixture.service.extensions == 0
    assert fixture.renewer.turn() == 10
    assert fixture.service.extensions == 1


def test_expired_session_ends_the_renewer(fixture):
    fixture.hold()
    fixture.service.faults["renew"].append(SessionExpired("over"))
    fixture.clock.advance(15)
    with pytest.raises(SessionExpired):
        fixture.renewer.turn()


def test_hint_begins_a_round_at_once(fixture):
    [held] = fixture.hold(1)
    fixture.clock.advance(5)
    fixture.service.cancelled.add(held.key)
    fixture.renewer.renew_now()
    # The session is extended 15 s after the start all the same.
    assert fixture.renewer.turn() == 15 - 5
    assert fixture.service.renewed == [[held.key]]
    assert held.is_cancelled


def test_many_hints_make_few_rounds(fixture):
    [held] = fixture.hold(1)
    for _ in range(100):
        fixture.clock.advance(0.01)
        fixture.renewer.renew_now()
        fixture.renewer.turn()
    assert 9 <= fixture.service.renewed.count([held.key]) <= 10


def test_hint_wakes_the_waiting_thread():
    service, stop = FakeTaskService(), threading.Event()
    shared = make_shared(service, SystemClock())
    renewer = Renewer(shared, stop)
    thread = threading.Thread(target=renewer.run)
    thread.start()
    try:
        [assignment] = service.submit(1)
        [held] = shared.keeper.hold([assignment], shared.clock.monotonic())
        service.live[held.key] = assignment
        renewer.renew_now()
        service.wait_until(lambda: service.renewed, "a renewal long before a quarter of the lease")
    finally:
        stop.set()
        renewer.wake()
        thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()


def test_an_extension_tells_that_the_worker_is_to_drain(fixture):
    fixture.service.drain()
    assert not fixture.shared.stopping.is_requested
    for _ in range(3):
        fixture.clock.advance(15)
        fixture.renewer.turn()
    assert fixture.service.extensions == 3
    assert fixture.shared.stopping.is_requested
    fixture.shared.stopping.update(fixture.clock.now)
    assert (fixture.shared.stopping.reason, fixture.shared.stopping.exit_code) == ("asked to drain", 0)


def test_a_queue_that_is_routed_meanwhile_is_told_once(caplog):
    fixture = Fixture()
    fixture.service.external_queues = ("far",)
    for _ in range(3):
        fixture.clock.advance(15)
        fixture.renewer.turn()
    told = [record.getMessage() for record in caplog.records if "queue not served" in record.getMessage()]
    assert len(told) == 1
    assert told[0].endswith("queue=far")
