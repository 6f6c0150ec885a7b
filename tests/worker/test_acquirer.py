"""The acquirer: asks for what is free, occupies what it gets, rests when nothing is due, and ends a drain."""

import pytest

from ledgence_worker.acquirer import EXTERNAL_PAUSE_SECONDS, Acquirer
from ledgence_worker.errors import ExternalDispatchRequired, Unavailable
from tests.worker.fakes import FakeClock, FakeTaskService, make_shared


class Fixture:
    def __init__(self, *, sources: int = 1, **settings) -> None:
        self.service = FakeTaskService()
        # An interrupted service answers at once, so that no test waits.
        self.service.is_interrupted = True
        self.clock = FakeClock()
        self.shared = make_shared(self.service, self.clock, **settings)
        self.acquirer = Acquirer(self.shared, sources=sources)

    def step(self) -> None:
        self.acquirer.step(self.acquirer._share.reserve())

    def granted(self):
        return [authority.assignment for authority in self.shared.inbox.take_granted()]

    def update(self):
        return self.shared.stopping.update(self.clock.now)


def test_everything_free_is_asked_for_and_what_comes_is_occupied():
    fixture = Fixture(acquire_wait_seconds=7)
    tasks = fixture.service.submit(3)
    fixture.step()
    [command] = fixture.service.commands
    assert (command.channel, command.sequence, command.capacity, command.wait_seconds) == (0, 1, 4, 7)
    slots = fixture.shared.slots
    assert (slots.free, slots.asked, slots.occupied) == (1, 0, 3)
    assert fixture.granted() == tasks
    assert [authority.assignment for authority in fixture.shared.keeper.renewable()] == tasks


def test_empty_reply_frees_the_slots():
    fixture = Fixture()
    fixture.step()
    assert fixture.shared.slots.free == 4
    assert fixture.granted() == []


def test_empty_replies_that_come_at_once_make_no_hot_loop():
    fixture = Fixture(acquire_wait_seconds=0)
    for _ in range(8):
        fixture.step()
    pauses = fixture.clock.pauses
    assert len(pauses) == 8
    assert 0.5 <= pauses[-1] <= 1.0


def test_work_ends_the_pauses():
    fixture = Fixture(acquire_wait_seconds=0)
    for _ in range(8):
        fixture.step()
    fixture.service.submit(1)
    fixture.step()
    assert len(fixture.clock.pauses) == 8
    fixture.step()
    assert fixture.clock.pauses[-1] <= 0.05


def test_nothing_is_asked_once_a_stop_was_requested():
    fixture = Fixture()
    capacity = fixture.shared.slots.reserve()
    fixture.shared.stopping.request("test")
    fixture.update()
    fixture.acquirer.step(capacity)
    assert fixture.service.commands == []
    assert fixture.shared.slots.free == 4


def test_closed_slots_end_the_acquirer():
    fixture = Fixture()
    fixture.shared.slots.close()
    fixture.acquirer.run()
    assert fixture.service.commands == []


def test_drain_asks_without_wait_and_stops_when_nothing_is_left():
    fixture = Fixture(drain=True)
    fixture.step()
    assert fixture.service.commands[0].wait_seconds == 0
    fixture.update()
    assert fixture.shared.stopping.reason == "drained"


def test_drain_goes_on_while_others_hold_work_and_then_waits_a_second_at_most():
    fixture = Fixture(drain=True)
    [task] = fixture.service.submit(1)
    fixture.service.due.clear()
    fixture.service.live[task.task_id, 1] = task
    fixture.step()
    fixture.step()
    fixture.update()
    assert not fixture.shared.stopping.is_requested
    assert fixture.service.commands[1].wait_seconds == 1
    fixture.service.live.clear()
    fixture.step()
    assert fixture.shared.stopping.is_requested


def test_drain_does_not_end_while_an_attempt_is_here():
    fixture = Fixture(drain=True)
    fixture.service.submit(1)
    fixture.step()
    # Settled by the service already, and the answer not yet here.
    fixture.service.live.clear()
    fixture.step()
    assert not fixture.shared.stopping.is_requested


def test_drain_does_not_end_on_an_unknown_answer():
    fixture = Fixture(drain=True)
    fixture.service.faults["is_drained"].append(Unavailable("down"))
    fixture.step()
    assert not fixture.shared.stopping.is_requested


def test_assignment_that_comes_with_its_authority_over_is_held_for_giving_back():
    fixture = Fixture()
    fixture.service.submit(1, remaining=5.0)
    fixture.step()
    [authority] = fixture.shared.inbox.take_granted()
    assert authority.is_over
    assert fixture.shared.slots.occupied == 1


def test_where_every_queue_is_external_a_lone_acquirer_gives_up():
    fixture = Fixture()
    fixture.service.faults["acquire"].append(ExternalDispatchRequired("all of them"))
    with pytest.raises(ExternalDispatchRequired):
        fixture.step()
    assert fixture.shared.slots.free == 4


def test_beside_receivers_it_asks_again_later():
    fixture = Fixture(sources=2)
    fixture.service.faults["acquire"].append(ExternalDispatchRequired("all of them"))
    fixture.step()
    assert fixture.shared.slots.free == 4
    assert fixture.clock.pauses == [EXTERNAL_PAUSE_SECONDS]
    [task] = fixture.service.submit(1)
    fixture.step()
    assert fixture.granted() == [task]
