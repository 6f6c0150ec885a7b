"""The main loop's turns: what is started, stopped, given back and passed on."""

from dataclasses import replace

import pytest

from ledgence_worker.ends import EndQueue
from ledgence_worker.loop import Loop
from ledgence_worker.pool import StopReason
from ledgence_worker.protocol import ErrorReport, Outcome, Report
from ledgence_worker.stopping import ExitCode
from tests.worker.fakes import FakeClock, FakePool, FakeTaskService, end_of, make_assignment, make_shared


class Fixture:
    def __init__(self) -> None:
        self.pool = FakePool(4)
        self.clock = FakeClock()
        self.shared = make_shared(FakeTaskService(), self.clock, wake=self.pool.wake)
        self.queue = EndQueue(0.0, self.clock)
        self.loop = Loop(self.shared, self.pool, self.queue)

    def grant(self, count=1, **kind):
        assignments = [make_assignment(**kind) for _ in range(count)]
        self.shared.slots.occupy(asked=self.shared.slots.reserve(), taken=count)
        authorities = self.shared.keeper.hold(assignments, self.clock.now)
        self.shared.inbox.grant(authorities)
        return authorities

    def turn(self) -> None:
        self.pool.wake()
        self.loop.turn()

    def ends(self):
        self.queue.close()
        return self.queue.take() or []


@pytest.fixture
def fixture():
    return Fixture()


def test_granted_attempts_are_started_with_their_deadlines(fixture):
    first, second = fixture.grant(2, timeout=300.0)
    fixture.turn()
    assert fixture.pool.started == [first.key, second.key]
    assert fixture.pool.deadlines[first.key] == fixture.clock.now + 300
    assert not fixture.loop.is_empty


def test_attempt_waits_while_no_process_is_free(fixture):
    fixture.pool.retiring = 3
    first, second = fixture.grant(2)
    fixture.turn()
    assert fixture.pool.started == [first.key]
    fixture.pool.retiring = 0
    fixture.turn()
    assert fixture.pool.started == [first.key, second.key]


def test_end_becomes_a_settlement_of_its_owner(fixture):
    [authority] = fixture.grant()
    fixture.turn()
    fixture.pool.finish(authority.assignment)
    fixture.turn()
    [end] = fixture.ends()
    told = end.settlement
    assert (told.task_id, told.number, told.token) == (*authority.key, authority.assignment.token)
    assert (end.settlement.outcome, end.settlement.result) == (Outcome.SUCCEEDED, "null")
    assert end.is_confirmed
    assert fixture.loop.is_empty


@pytest.mark.parametrize("outcome", Outcome)
def test_an_end_that_people_should_see_is_logged_without_its_message(fixture, caplog, outcome):
    [authority] = fixture.grant()
    fixture.turn()
    error = ErrorReport(classes=("builtins.KeyError", "builtins.Exception"), message="secret", traceback="secret")
    fixture.pool._end(replace(end_of(authority.assignment, outcome), report=Report(error=error)))
    fixture.turn()
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    is_trouble = outcome in (Outcome.FAILED, Outcome.CRASHED, Outcome.TIMED_OUT)
    expected = f"attempt ended task={authority.key[0]} attempt=1 outcome={outcome} error=builtins.KeyError"
    assert told == ([expected] if is_trouble else [])


def test_end_of_an_unknown_attempt_is_only_logged(fixture, caplog):
    stranger = make_assignment()
    fixture.pool._ended.append(end_of(stranger, Outcome.SUCCEEDED, result="1"))
    fixture.turn()
    assert fixture.ends() == []
    assert "unknown attempt" in caplog.text


def test_passed_bound_stops_the_program_and_its_end_is_still_told(fixture):
    [authority] = fixture.grant(remaining=60)
    fixture.turn()
    fixture.clock.advance(54.9)
    fixture.turn()
    assert fixture.pool.stops == []
    fixture.clock.advance(0.1)
    fixture.turn()
    assert fixture.pool.stops == [(authority.key, StopReason.AUTHORITY_LOST)]
    fixture.turn()
    [end] = fixture.ends()
    assert end.settlement.outcome is Outcome.LOST


@pytest.mark.parametrize("mark", ["is_over", "is_cancelled"])
def test_attempt_that_must_not_start_any_more_is_given_back(fixture, mark):
    [authority] = fixture.grant()
    setattr(authority, mark, True)
    fixture.turn()
    assert fixture.pool.started == []
    [end] = fixture.ends()
    assert (end.authority, end.settlement, end.is_confirmed) == (authority, None, True)


def test_attempts_that_wait_when_the_stop_comes_are_given_back(fixture):
    fixture.pool.retiring = 4
    authorities = fixture.grant(2)
    fixture.turn()
    fixture.shared.stopping.request("test")
    fixture.turn()
    assert fixture.pool.started == []
    assert [end.authority for end in fixture.ends()] == authorities


def test_stop_order_reaches_only_what_runs(fixture):
    running, ended = fixture.grant(2)
    fixture.turn()
    fixture.pool.finish(ended.assignment)
    fixture.turn()
    fixture.shared.inbox.stop(ended, StopReason.CANCEL)
    fixture.shared.inbox.stop(running, StopReason.CANCEL)
    fixture.turn()
    assert fixture.pool.stops == [(running.key, StopReason.CANCEL)]


def test_grace_over_stops_all_and_gives_back(fixture):
    authorities = fixture.grant(2)
    fixture.turn()
    fixture.loop.stop_all()
    fixture.turn()
    assert [reason for _, reason in fixture.pool.stops] == [StopReason.DRAIN] * 2
    assert [(end.authority, end.settlement) for end in fixture.ends()] == [(one, None) for one in authorities]


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_work_given_back_for_an_error_is_settled_with_it(fixture, is_confirmed):
    [authority] = fixture.grant()
    fixture.turn()
    error = ErrorReport(classes=("builtins.ImportError",), message="no", traceback="")
    ended = end_of(authority.assignment, Outcome.INTERRUPTED, confirmed=is_confirmed)
    fixture.pool._ended.append(replace(ended, report=Report(error=error)))
    fixture.turn()
    settlements = [(end.settlement.outcome, end.settlement.report.error) for end in fixture.ends()]
    assert settlements == ([(Outcome.INTERRUPTED, error)] if is_confirmed else [])


def test_interrupted_attempt_whose_process_may_live_is_never_given_back(fixture, caplog):
    fixture.pool.confirms_stops = False
    fixture.grant(1)
    fixture.turn()
    fixture.loop.stop_all()
    fixture.turn()
    assert fixture.ends() == []
    assert fixture.shared.slots.quarantined == 1
    assert fixture.shared.keeper.renewable() == []
    assert fixture.shared.stopping.exit_code is ExitCode.FORCED
    assert "attempt left to expire" in caplog.text


def test_quarantined_slot_returns_when_its_process_is_gone(fixture):
    fixture.pool.confirms_stops = False
    fixture.grant(1)
    fixture.turn()
    fixture.loop.stop_all()
    fixture.turn()
    fixture.turn()
    assert fixture.shared.slots.quarantined == 1
    fixture.pool.retiring = 0
    fixture.turn()
    assert (fixture.shared.slots.quarantined, fixture.shared.slots.free) == (0, 4)


def test_each_turn_is_a_heartbeat(fixture):
    fixture.clock.advance(5)
    fixture.turn()
    assert fixture.loop.turned_at == fixture.clock.now
