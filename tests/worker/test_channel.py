"""A channel: one sequence at a time, repeated while its fate is unknown."""

import pytest

from ledgence_worker.channel import Channel, Undecided
from ledgence_worker.errors import Busy, InvalidInput, SessionExpired, Unavailable
from ledgence_worker.patience import Forced
from ledgence_worker.protocol import Outcome, Settlement
from tests.worker.fakes import FakeClock, FakeTaskService, LostReply, make_assignment, make_shared


class Fixture:
    def __init__(self) -> None:
        self.service = FakeTaskService()
        self.clock = FakeClock()
        self.shared = make_shared(self.service, self.clock)
        self.channel = Channel(self.shared, number=1)

    def settlement(self):
        [assignment] = self.service.submit(1)
        self.service.due.clear()
        self.service.live[assignment.task_id, 1] = assignment
        return Settlement(
            task_id=assignment.task_id, number=1, token=assignment.token, outcome=Outcome.SUCCEEDED, result="1"
        )


@pytest.fixture
def fixture():
    return Fixture()


def test_sequences_count_one_two_three(fixture):
    for _ in range(3):
        fixture.channel.ask(capacity=2)
    assert [command.sequence for command in fixture.service.commands] == [1, 2, 3]


def test_lost_reply_repeats_the_very_same_command_and_gets_the_recorded_answer(fixture):
    fixture.service.faults["acquire"].extend([LostReply(), Unavailable("no")])
    reply = fixture.channel.ask(capacity=2, settlements=(fixture.settlement(),))
    first, *others = fixture.service.commands
    assert others == [first, first]
    assert reply.answer.assignments == ()
    fixture.service.submit(1)
    assert len(fixture.channel.ask(capacity=2).answer.assignments) == 1
    assert fixture.service.commands[-1].sequence == 2


def test_a_command_without_an_answer_is_repeated_without_its_wait(fixture):
    # Otherwise the end of an outage would be known only when the wait is over.
    fixture.service.faults["acquire"].extend([Unavailable("down"), Busy("full")])
    fixture.service.submit(1)
    assert len(fixture.channel.ask(capacity=1, wait_seconds=20).answer.assignments) == 1
    assert [(one.sequence, one.wait_seconds) for one in fixture.service.commands] == [(1, 20), (1, 0), (1, 0)]


def test_a_command_that_was_busy_is_repeated_with_its_wait(fixture):
    fixture.service.faults["acquire"].append(Busy("full"))
    fixture.service.submit(1)
    fixture.channel.ask(capacity=1, wait_seconds=20)
    assert [one.wait_seconds for one in fixture.service.commands] == [20, 20]


def test_since_is_when_the_answered_request_was_sent_plus_the_hold(fixture):
    fixture.service.faults["acquire"].append(Unavailable("down"))
    fixture.service.held_seconds = 4
    fixture.service.before_acquire = lambda: fixture.clock.advance(7)
    sent_at = fixture.clock.now
    assert fixture.channel.ask(capacity=1).since == sent_at + 7 + 4


@pytest.mark.parametrize("error", [Busy("locked"), InvalidInput("bad result")])
def test_refused_settlements_leave_the_sequence_unused(fixture, error):
    fixture.service.faults["acquire"].append(error)
    with pytest.raises(Undecided):
        fixture.channel.ask(capacity=1, settlements=(fixture.settlement(),))
    fixture.channel.ask(capacity=1)
    assert [command.sequence for command in fixture.service.commands] == [1, 1]


def test_busy_after_a_lost_reply_is_repeated_because_it_may_have_been_carried_out(fixture):
    fixture.service.faults["acquire"].extend([LostReply(), Busy("locked")])
    settlement = fixture.settlement()
    fixture.service.submit(1)
    reply = fixture.channel.ask(capacity=1, settlements=(settlement,))
    assert len(reply.answer.assignments) == 1
    assert len(fixture.service.commands) == 3


def test_busy_without_settlements_is_repeated(fixture):
    fixture.service.faults["acquire"].extend([Busy("locked")] * 3)
    fixture.channel.ask(capacity=1)
    assert [command.sequence for command in fixture.service.commands] == [1] * 4


@pytest.mark.parametrize("error", [InvalidInput("capacity"), SessionExpired("over")])
def test_other_refusals_are_raised(fixture, error):
    fixture.service.faults["acquire"].append(error)
    with pytest.raises(type(error)):
        fixture.channel.ask(capacity=1)


def test_pauses_grow_from_50_milliseconds_to_two_seconds_with_jitter(fixture):
    fixture.service.faults["acquire"].extend([Unavailable("down")] * 12)
    fixture.channel.ask(capacity=1)
    pauses = fixture.clock.pauses
    assert 0.025 <= pauses[0] <= 0.05
    assert all(1.0 <= pause <= 2.0 for pause in pauses[7:])
    assert len(set(pauses)) == 12


def test_forced_stop_ends_the_repeating(fixture):
    fixture.service.is_down = True
    fixture.shared.stopping.force()
    with pytest.raises(Forced):
        fixture.channel.ask(capacity=1)


def test_assignments_that_were_lost_meanwhile_are_told_apart(fixture):
    task = make_assignment()
    fixture.service.due.append(task)
    fixture.service.faults["acquire"].append(LostReply())
    # By the time of the repetition the lease has expired.
    fixture.service.before_acquire = fixture.service.live.clear
    reply = fixture.channel.ask(capacity=1)
    assert reply.answer.assignments == ()
    assert reply.answer.lost == ((task.task_id, 1),)
