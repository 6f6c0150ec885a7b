"""The settler: one commit settles and refills, a locked row holds up no other, and no end stays untold."""

from dataclasses import replace

import pytest

from ledgence_worker.ends import End
from ledgence_worker.errors import Busy, ExternalDispatchRequired, InvalidInput, SessionExpired, Unavailable
from ledgence_worker.patience import Forced
from ledgence_worker.protocol import Outcome, Settlement
from ledgence_worker.settler import Settler
from ledgence_worker.stopping import ExitCode
from tests.worker.fakes import FakeClock, FakeTaskService, LostReply, make_shared


class Fixture:
    def __init__(self, running=4) -> None:
        self.service = FakeTaskService()
        self.clock = FakeClock()
        self.shared = make_shared(self.service, self.clock)
        self.settler = Settler(self.shared)
        self.slots = self.shared.slots
        assignments = self.service.submit(running)
        self.service.due.clear()
        self.service.live |= {(a.task_id, a.number): a for a in assignments}
        self.slots.occupy(asked=self.slots.reserve(), taken=running)
        self.authorities = self.shared.keeper.hold(assignments, self.clock.now)

    def end(self, index, *, outcome=Outcome.SUCCEEDED, confirmed=True) -> End:
        authority = self.authorities[index]
        settlement = Settlement(
            task_id=authority.key[0],
            number=authority.key[1],
            token=authority.assignment.token,
            outcome=outcome,
            result="1" if outcome is Outcome.SUCCEEDED else None,
        )
        return End(authority=authority, settlement=settlement, is_confirmed=confirmed)

    def given_back(self, index) -> End:
        return End(authority=self.authorities[index], settlement=None)

    def held(self):
        return [self.authorities.index(one) for one in self.shared.keeper.renewable() if one in self.authorities]

    def counts(self):
        return self.slots.free, self.slots.occupied, self.slots.quarantined

    def retry(self) -> None:
        self.clock.advance(2)
        self.settler._send(self.settler.queue.take_again())


@pytest.fixture
def fixture():
    return Fixture()


def test_one_command_settles_and_refills(fixture):
    work = fixture.service.submit(9)
    fixture.settler.step([fixture.end(0), fixture.end(1), fixture.end(2)])
    [command] = fixture.service.commands
    assert (command.channel, command.capacity, len(command.settlements), command.wait_seconds) == (1, 3, 3, 0)
    assert [one.assignment for one in fixture.shared.inbox.take_granted()] == work[:3]
    assert fixture.counts() == (0, 4, 0)
    assert fixture.held() == [3]


def test_slots_without_new_work_are_free_for_the_acquirer(fixture):
    fixture.service.submit(1)
    fixture.settler.step([fixture.end(0), fixture.end(1), fixture.end(2)])
    assert fixture.counts() == (2, 2, 0)


def test_unconfirmed_process_is_settled_but_its_slot_is_quarantined(fixture):
    fixture.service.submit(9)
    fixture.settler.step([fixture.end(0, outcome=Outcome.TIMED_OUT, confirmed=False), fixture.end(1)])
    assert fixture.service.commands[0].capacity == 1
    assert fixture.counts() == (0, 3, 1)
    fixture.settler.step([fixture.end(2, outcome=Outcome.TIMED_OUT, confirmed=False)])
    assert len(fixture.service.commands) == 1
    assert len(fixture.service.settled) == 3
    assert fixture.counts() == (0, 2, 2)


def test_refused_ends_are_final_and_free_their_slots(fixture, caplog):
    fixture.service.lost.add(fixture.authorities[0].key)
    fixture.service.settled[fixture.authorities[1].key] = replace(fixture.end(1).settlement, result="2")
    fixture.settler.step([fixture.end(0), fixture.end(1)])
    assert fixture.counts() == (2, 2, 0)
    assert fixture.held() == [2, 3]
    assert "status=ownership_lost" in caplog.text
    assert "status=conflict" in caplog.text


def test_locked_row_keeps_its_slot_and_is_told_later(fixture):
    fixture.service.locked.add(fixture.authorities[0].key)
    fixture.settler.step([fixture.end(0), fixture.end(1)])
    assert fixture.counts() == (1, 3, 0)
    assert fixture.held() == [0, 2, 3]
    fixture.service.locked.clear()
    fixture.retry()
    assert fixture.counts() == (2, 2, 0)
    assert len(fixture.service.settled) == 2


def test_work_granted_for_a_slot_that_did_not_get_free_is_given_back(fixture):
    work = fixture.service.submit(2)
    fixture.service.locked.add(fixture.authorities[0].key)
    fixture.settler.step([fixture.end(0), fixture.end(1)])
    assert [one.assignment for one in fixture.shared.inbox.take_granted()] == work[:1]
    assert fixture.service.released == [(work[1].task_id, 1)]
    assert fixture.counts() == (0, 4, 0)


def test_busy_batch_is_settled_one_by_one_and_the_rest_goes_on(fixture):
    fixture.service.faults["acquire"].append(Busy("locked"))
    fixture.service.faults["settle"].append(Busy("locked"))
    fixture.settler.step([fixture.end(0), fixture.end(1)])
    assert set(fixture.service.settled) == {fixture.authorities[1].key}
    assert fixture.counts() == (1, 3, 0)
    fixture.settler.step([fixture.end(2)])
    assert fixture.counts() == (2, 2, 0)
    fixture.retry()
    assert fixture.counts() == (3, 1, 0)


def test_pauses_for_a_locked_row_grow(fixture):
    fixture.service.locked.add(fixture.authorities[0].key)
    fixture.settler.step([fixture.end(0)])
    for _ in range(8):
        fixture.retry()
    fixture.clock.advance(0.9)
    assert fixture.settler.queue.take_again() == []
    fixture.clock.advance(1.1)
    assert len(fixture.settler.queue.take_again()) == 1


def test_lost_reply_settles_once(fixture):
    fixture.service.submit(2)
    fixture.service.faults["acquire"].append(LostReply())
    fixture.settler.step([fixture.end(0)])
    assert fixture.service.commands[0] == fixture.service.commands[1]
    assert len(fixture.shared.inbox.take_granted()) == 1
    assert fixture.counts() == (0, 4, 0)


def test_draining_worker_settles_without_asking_for_work(fixture):
    fixture.service.submit(5)
    fixture.shared.stopping.request("test")
    fixture.service.faults["settle"].extend([LostReply(), Unavailable("down")])
    fixture.settler.step([fixture.end(0), fixture.end(1)])
    assert fixture.service.commands == []
    assert len(fixture.service.settled) == 2
    assert fixture.counts() == (2, 2, 0)


def test_work_is_given_back(fixture):
    fixture.service.faults["release"].append(Unavailable("down"))
    fixture.settler.step([fixture.given_back(0), fixture.end(1)])
    assert fixture.service.released == [fixture.authorities[0].key]
    assert set(fixture.service.settled) == {fixture.authorities[1].key}
    assert fixture.counts() == (2, 2, 0)


def test_result_that_can_never_be_stored_fails_the_attempt_instead_of_staying_untold(fixture):
    fixture.service.faults["acquire"].append(InvalidInput("result is too large"))
    fixture.service.faults["settle"].append(InvalidInput("result is too large"))
    fixture.settler.step([fixture.end(0), fixture.end(1)])
    told = fixture.service.settled[fixture.authorities[0].key]
    assert (told.outcome, told.result) == (Outcome.FAILED, None)
    assert told.report.error.message == "result is too large"
    assert fixture.service.settled[fixture.authorities[1].key].outcome is Outcome.SUCCEEDED
    assert fixture.counts() == (2, 2, 0)


def test_report_that_can_never_be_stored_keeps_its_outcome(fixture):
    fixture.service.faults["acquire"].append(InvalidInput("report is too large"))
    fixture.service.faults["settle"].append(InvalidInput("report is too large"))
    fixture.settler.step([fixture.end(0, outcome=Outcome.CRASHED)])
    assert fixture.service.settled[fixture.authorities[0].key].outcome is Outcome.CRASHED


def test_end_that_is_refused_in_any_words_is_left_to_expire_and_told(fixture, caplog):
    fixture.service.faults["acquire"].append(InvalidInput("no"))
    fixture.service.faults["settle"].extend([InvalidInput("no")] * 2)
    fixture.settler.step([fixture.end(0)])
    assert fixture.service.settled == {}
    assert fixture.counts() == (1, 3, 0)
    assert fixture.held() == [1, 2, 3]
    assert "attempt left to expire" in caplog.text
    assert fixture.shared.stopping.exit_code is ExitCode.FORCED


@pytest.mark.parametrize(
    ("error", "code"),
    [(SessionExpired("over"), ExitCode.FAILED), (ExternalDispatchRequired("sqs"), ExitCode.CONFIGURATION)],
)
def test_service_that_gives_no_more_work_still_gets_the_ends(fixture, error, code):
    fixture.service.faults["acquire"].append(error)
    fixture.settler.step([fixture.end(0)])
    assert len(fixture.service.settled) == 1
    fixture.shared.stopping.update(fixture.clock.now)
    assert fixture.shared.stopping.exit_code is code


def test_ends_that_an_expired_session_refuses_are_left_to_expire(fixture):
    fixture.service.faults["acquire"].append(SessionExpired("over"))
    fixture.service.faults["settle"].append(SessionExpired("over"))
    fixture.settler.step([fixture.end(0)])
    assert fixture.counts() == (1, 3, 0)
    fixture.shared.stopping.update(fixture.clock.now)
    assert fixture.shared.stopping.exit_code is ExitCode.FAILED


def test_outage_keeps_everything_until_the_worker_is_forced(fixture):
    fixture.service.is_down = True
    fixture.shared.stopping.force()
    with pytest.raises(Forced):
        fixture.settler.step([fixture.end(0)])
    assert fixture.counts() == (0, 4, 0)
    assert fixture.held() == [0, 1, 2, 3]
