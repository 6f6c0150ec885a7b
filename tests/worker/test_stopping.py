"""Phases and exit codes: one signal drains, two force, time alone ends what hangs."""

import os
import signal
import threading

import pytest

from ledgence_worker.stopping import CLOSING_SECONDS, ExitCode, Interrupted, Phase, Stopping, stop_signals
from tests.worker.fakes import FakeClock


class Fixture:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.wakes = 0
        self.stopping = Stopping(25.0, self.clock, self.wake)

    def wake(self) -> None:
        self.wakes += 1

    def signal(self) -> None:
        self.stopping.on_signal(signal.SIGTERM, None)

    def code(self) -> ExitCode:
        return self.stopping.exit_code

    def phase(self, after=0.0) -> Phase:
        self.clock.advance(after)
        return self.stopping.update(self.clock.now)


@pytest.fixture
def fixture():
    return Fixture()


def test_worker_works_until_told(fixture):
    assert fixture.phase(after=1e6) is Phase.WORKING
    assert not fixture.stopping.is_requested


def test_first_signal_drains_then_kills_then_forces(fixture):
    fixture.signal()
    assert fixture.wakes == 1
    assert fixture.stopping.is_requested
    assert fixture.phase() is Phase.DRAINING
    assert fixture.stopping.draining.is_set()
    assert fixture.phase(after=24.9) is Phase.DRAINING
    assert fixture.stopping.next_change_at == pytest.approx(fixture.clock.now + 0.1)
    assert fixture.phase(after=0.1) is Phase.KILLING
    assert fixture.code() is ExitCode.CLEAN
    assert fixture.stopping.next_change_at == fixture.clock.now + CLOSING_SECONDS
    assert fixture.phase(after=CLOSING_SECONDS) is Phase.FORCED
    assert fixture.stopping.forced.is_set()
    assert fixture.code() is ExitCode.FORCED


def test_second_signal_forces_at_once(fixture):
    fixture.signal()
    fixture.phase()
    fixture.signal()
    assert fixture.phase() is Phase.FORCED
    assert fixture.stopping.exit_code is ExitCode.FORCED


def test_two_signals_before_the_loop_looks_force_as_well(fixture):
    fixture.signal()
    fixture.signal()
    assert fixture.phase() is Phase.FORCED
    assert fixture.stopping.draining.is_set()


def test_request_drains_with_its_reason_and_code(fixture):
    fixture.stopping.request("renewer failed", ExitCode.FAILED)
    assert fixture.wakes == 1
    assert fixture.phase() is Phase.DRAINING
    assert fixture.stopping.reason == "renewer failed"
    assert fixture.stopping.exit_code is ExitCode.FAILED


def test_longer_grace_of_a_request_is_cut_by_a_signal(fixture):
    fixture.stopping.request("session expired", ExitCode.FAILED, grace_seconds=60.0)
    assert fixture.phase() is Phase.DRAINING
    assert fixture.phase(after=30) is Phase.DRAINING
    fixture.signal()
    assert fixture.phase(after=0) is Phase.DRAINING
    assert fixture.phase(after=25) is Phase.KILLING


def test_signal_does_not_prolong_itself(fixture):
    fixture.signal()
    fixture.phase()
    for _ in range(5):
        assert fixture.phase(after=4.9) is Phase.DRAINING
    assert fixture.phase(after=0.6) is Phase.KILLING


def test_worst_exit_code_counts(fixture):
    fixture.stopping.worsen(ExitCode.FAILED)
    fixture.stopping.worsen(ExitCode.FORCED)
    assert fixture.stopping.exit_code is ExitCode.FAILED


def test_signal_interrupts_the_start(fixture):
    with pytest.raises(Interrupted), fixture.stopping.interrupting():
        fixture.signal()
    fixture.signal()


def test_signal_before_the_start_interrupts_it_as_well(fixture):
    fixture.signal()
    with pytest.raises(Interrupted), fixture.stopping.interrupting():
        raise AssertionError("the block must not begin")


def test_a_terminal_that_goes_away_drains_and_never_forces(fixture):
    for _ in range(3):
        fixture.stopping.on_signal(signal.SIGHUP, None)
    assert fixture.stopping.update(fixture.clock.now) is Phase.DRAINING
    fixture.signal()
    assert fixture.stopping.update(fixture.clock.now) is Phase.FORCED


def test_under_nohup_the_terminal_may_go_away(fixture):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals(fixture.stopping):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_handlers_are_installed_and_put_back(fixture, number):
    before = signal.getsignal(number)
    with stop_signals(fixture.stopping):
        os.kill(os.getpid(), number)
        # The handler runs in the main thread at its next wait at the latest.
        threading.Event().wait(0.001)
        assert fixture.stopping.is_requested
    assert signal.getsignal(number) is before
