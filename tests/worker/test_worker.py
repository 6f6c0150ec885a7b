"""The whole worker on its ports' doubles: work flows, stops are clean, and every failure ends with its exit code."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from uuid import uuid4

import pytest

from ledgence_worker.errors import BootstrapFailed, Busy, InvalidInput, LauncherLost, SessionExpired, Unavailable
from ledgence_worker.pool import StopReason
from ledgence_worker.protocol import Outcome
from ledgence_worker.sessions import CLOSE_SECONDS
from ledgence_worker.stopping import CLOSING_SECONDS
from ledgence_worker.worker import Worker
from tests.faults.waiting import wait_until
from tests.worker.fakes import FakePool, FakeTaskService, LostReply, make_settings, succeed


class Driver(threading.Thread):
    """Plays the outside world beside the worker, which needs the main thread; its failure fails the test."""

    def __init__(self, play: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._play = play
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._play()
        except BaseException as failure:
            self.failure = failure
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)


def run_worker(service: FakeTaskService, pool: FakePool, play: Callable[[], None] = lambda: None, **settings) -> int:
    driver = Driver(play)
    worker = Worker(service, pool, make_settings(concurrency=pool.concurrency, **settings))
    driver.start()
    code = worker.run()
    driver.join(10)
    if driver.failure:
        raise driver.failure
    return code


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_drain_mode_runs_everything_and_exits_clean():
    service, pool = FakeTaskService(), FakePool(4, succeed)
    service.submit(1000)
    assert run_worker(service, pool, drain=True) == 0
    assert len(service.settled) == 1000
    assert len(pool.started) == 1000
    assert service.largest_live <= 4
    assert service.is_session_closed and service.is_closed and pool.is_closed


def test_settlements_refill_their_slots_in_the_same_command():
    service, pool = FakeTaskService(), FakePool(4, succeed)
    service.submit(400)
    assert run_worker(service, pool, drain=True) == 0
    refills = [command for command in service.commands if command.channel == 1]
    assert sum(command.capacity for command in refills) == 400
    assert all(command.capacity == len(command.settlements) for command in refills)
    assert [command.sequence for command in refills] == list(range(1, len(refills) + 1))


def test_work_that_comes_later_is_taken_by_the_waiting_acquirer():
    service, pool = FakeTaskService(), FakePool(2, succeed)

    def play() -> None:
        service.wait_until(lambda: service.commands, "a request for work")
        service.submit(5)
        service.wait_until(lambda: len(service.settled) == 5, "five settlements")
        terminate()

    assert run_worker(service, pool, play) == 0


def test_lost_replies_start_nothing_twice_and_lose_nothing():
    service, pool = FakeTaskService(), FakePool(4, succeed)
    service.submit(40)
    service.faults["acquire"].extend([LostReply(), Unavailable("no"), LostReply(), LostReply()])
    assert run_worker(service, pool, drain=True) == 0
    # The pool's double refuses to start an attempt twice.
    assert len(service.settled) == len(pool.started) == 40


def test_close_without_an_answer_is_repeated():
    service = FakeTaskService()
    service.faults["close_session"].extend([Unavailable("no"), Busy("full"), Unavailable("no")])
    assert run_worker(service, FakePool(1), drain=True) == 0
    assert service.is_session_closed and service.is_closed


def test_close_that_is_never_answered_holds_up_no_exit(caplog):
    service = FakeTaskService()
    service.faults["close_session"].extend([Unavailable("down")] * 1000)
    began = time.monotonic()
    assert run_worker(service, FakePool(1), drain=True) == 0
    assert time.monotonic() - began < CLOSE_SECONDS + 5
    assert "session not closed" in caplog.text
    assert service.is_closed


def test_programs_are_killed_early_enough_for_their_end_to_be_accepted():
    service, pool = FakeTaskService(), FakePool(1)
    assert run_worker(service, pool, drain=True) == 0
    # The clean-up allowance, less the quarter of a lease that a renewal may take to tell of a cancellation.
    session = service.extend_session(uuid4())
    assert pool.stop_seconds is not None
    assert pool.stop_seconds < session.cleanup_seconds - session.lease_seconds / 4


def test_first_signal_lets_running_attempts_finish_and_takes_nothing_new():
    service, pool = FakeTaskService(), FakePool(2)
    first, second = service.submit(2)

    def play() -> None:
        pool.wait_until(lambda: len(pool.started) == 2, "both starts")
        terminate()
        service.wait_until(lambda: service.is_interrupted, "the interruption")
        service.submit(3)
        pool.finish(first)
        pool.finish(second)

    assert run_worker(service, pool, play) == 0
    assert len(service.settled) == 2
    assert not pool.stops
    assert len(service.due) == 3


def test_an_idle_worker_that_is_asked_to_drain_ends_clean(caplog):
    service, pool = FakeTaskService(), FakePool(2)

    def play() -> None:
        service.wait_until(lambda: service.commands, "a request for work")
        service.drain()

    with caplog.at_level(logging.INFO):
        assert run_worker(service, pool, play) == 0
    assert service.is_session_closed
    assert "worker stopped reason=asked to drain exit_code=0" in caplog.text


def test_a_worker_that_is_asked_to_drain_finishes_what_runs_and_takes_nothing_new():
    service, pool = FakeTaskService(), FakePool(2)
    first, second = service.submit(2)

    def play() -> None:
        pool.wait_until(lambda: len(pool.started) == 2, "both starts")
        service.drain()
        service.submit(3)
        # Heard with the end of the first, whose slot is not filled again.
        pool.finish(first)
        service.wait_until(lambda: service.is_interrupted, "the interruption")
        pool.finish(second)

    assert run_worker(service, pool, play) == 0
    assert (len(service.settled), len(service.due), pool.stops) == (2, 3, [])


def test_after_the_grace_attempts_are_stopped_and_given_back():
    service, pool = FakeTaskService(), FakePool(2)
    task = service.submit(1)[0]

    def play() -> None:
        pool.wait_until(lambda: pool.started, "the start")
        terminate()

    assert run_worker(service, pool, play, grace_seconds=0.05) == 0
    assert pool.stops == [((task.task_id, 1), StopReason.DRAIN)]
    assert service.released == [(task.task_id, 1)]


def test_attempt_whose_process_is_not_confirmed_gone_is_left_to_expire():
    service, pool = FakeTaskService(), FakePool(2)
    pool.confirms_stops = False
    task = service.submit(1)[0]

    def play() -> None:
        pool.wait_until(lambda: pool.started, "the start")
        terminate()

    assert run_worker(service, pool, play, grace_seconds=0.05) == 1
    assert not service.released
    assert (task.task_id, 1) in service.live


def test_second_signal_forces():
    service, pool = FakeTaskService(), FakePool(2)
    service.submit(2)

    def play() -> None:
        pool.wait_until(lambda: len(pool.started) == 2, "both starts")
        terminate()
        service.wait_until(lambda: service.is_interrupted, "the interruption")
        os.kill(os.getpid(), signal.SIGINT)

    assert run_worker(service, pool, play, grace_seconds=60) == 1
    assert pool.is_closed
    assert len(service.live) == 2


def test_an_idle_worker_whose_service_is_away_gives_up_when_its_grace_is_over(caplog):
    service, pool = FakeTaskService(), FakePool(2)
    told: list[float] = []

    def play() -> None:
        service.wait_until(lambda: service.commands, "a request for work")
        service.is_down = True
        wait_until(lambda: "command=acquire" in caplog.text, "a request without an answer")
        told.append(time.monotonic())
        terminate()

    assert run_worker(service, pool, play, grace_seconds=0.5, acquire_wait_seconds=0.01) == 1
    assert 0.5 <= time.monotonic() - told[0] < CLOSING_SECONDS / 2


def test_second_signal_ends_a_worker_whose_service_is_down():
    service, pool = FakeTaskService(), FakePool(2)
    task = service.submit(1)[0]
    still_telling: list[bool] = []
    pool.on_close = lambda: still_telling.append(any(t.name == "ledgence-settler" for t in threading.enumerate()))

    def play() -> None:
        pool.wait_until(lambda: pool.started, "the start")
        service.is_down = True
        pool.finish(task)
        terminate()
        service.wait_until(lambda: service.is_interrupted, "the interruption")
        terminate()

    assert run_worker(service, pool, play) == 1
    # Programs are killed first, and only then the ends that are known get a moment.
    assert still_telling == [True]


def test_settlement_survives_an_outage_and_its_slot_stays_occupied_meanwhile():
    service, pool = FakeTaskService(), FakePool(1)
    task, later = service.submit(2)

    def play() -> None:
        pool.wait_until(lambda: pool.started, "the start")
        service.is_down = True
        pool.finish(task)
        service.wait_until(lambda: sum(bool(c.settlements) for c in service.commands) >= 2, "a repeated settlement")
        assert len(pool.started) == 1
        service.is_down = False
        pool.wait_until(lambda: len(pool.started) == 2, "the next start")
        pool.finish(later)
        service.wait_until(lambda: len(service.settled) == 2, "both settlements")
        terminate()

    assert run_worker(service, pool, play) == 0
    repeated = [command for command in service.commands if command.settlements]
    assert repeated[0] == repeated[1]


def test_programs_that_do_not_load_are_a_configuration_error(caplog):
    caplog.set_level(logging.INFO)
    service, pool = FakeTaskService(), FakePool(1)
    pool.failure = BootstrapFailed("ModuleNotFoundError: no module named app")
    assert run_worker(service, pool) == 2
    assert service.is_closed and pool.is_closed
    assert "worker stopped reason=cannot start exit_code=2" in caplog.text


@pytest.mark.parametrize("programs", [0, 1])
def test_a_worker_that_knows_no_program_says_so(monkeypatch, caplog, programs):
    service, pool = FakeTaskService(), FakePool(1)
    known = pool.open()
    monkeypatch.setattr(pool, "open", lambda: known[:programs])
    assert run_worker(service, pool, drain=True) == 0
    assert ("no program is known" in caplog.text) == (programs == 0)


def test_refused_session_is_a_configuration_error():
    service, pool = FakeTaskService(), FakePool(1)
    service.faults["open_session"].append(InvalidInput("unknown queue"))
    assert run_worker(service, pool) == 2


def test_lease_too_short_to_be_kept_is_a_configuration_error():
    assert run_worker(FakeTaskService(lease_seconds=1.5), FakePool(1)) == 2


def test_signal_while_the_session_cannot_be_opened_ends_clean():
    service, pool = FakeTaskService(is_down=True), FakePool(1)

    def play() -> None:
        pool.wait_until(lambda: pool.is_open, "the opened pool")
        terminate()

    assert run_worker(service, pool, play) == 0
    assert service.opened is None


def test_expired_session_drains_and_exits_with_3():
    service, pool = FakeTaskService(), FakePool(2)
    task = service.submit(1)[0]

    def play() -> None:
        pool.wait_until(lambda: pool.started, "the start")
        service.faults["acquire"].append(SessionExpired("over"))
        pool.finish(task)

    assert run_worker(service, pool, play) == 3
    assert len(service.settled) == 1


@pytest.mark.parametrize("method", ["acquire", "renew"])
def test_thread_that_fails_is_never_silent(method, caplog):
    service, pool = FakeTaskService(lease_seconds=2.0), FakePool(2)
    task = service.submit(1)[0]

    def play() -> None:
        pool.wait_until(lambda: pool.started, "the start")
        service.faults[method].append(ZeroDivisionError("a bug"))
        service.interrupt()
        service.wait_until(lambda: not service.faults[method], "the fault")
        pool.finish(task)

    assert run_worker(service, pool, play) == 3
    assert "a bug" in caplog.text
    assert len(service.settled) == 1


def test_settler_that_fails_ends_the_worker(caplog):
    service, pool = FakeTaskService(), FakePool(1)
    task = service.submit(1)[0]

    def play() -> None:
        pool.wait_until(lambda: pool.started, "the start")
        service.faults["acquire"].append(ZeroDivisionError("a bug"))
        pool.finish(task)

    assert run_worker(service, pool, play) == 3
    assert "settler failed" in caplog.text
    assert service.is_closed


def test_lost_launcher_ends_the_worker():
    service, pool = FakeTaskService(), FakePool(1)

    def play() -> None:
        service.wait_until(lambda: service.commands, "a request for work")
        pool.fail(LauncherLost("gone"))

    assert run_worker(service, pool, play) == 3
    assert pool.is_closed


def test_cancel_told_by_a_renewal_stops_the_program():
    service, pool = FakeTaskService(lease_seconds=2.0), FakePool(1)
    task = service.submit(1)[0]
    service.cancelled.add((task.task_id, 1))

    def play() -> None:
        service.wait_until(lambda: service.settled, "the settlement")
        terminate()

    assert run_worker(service, pool, play) == 0
    assert pool.stops == [((task.task_id, 1), StopReason.CANCEL)]
    assert service.settled[task.task_id, 1].outcome is Outcome.CANCELLED


def test_renewals_go_on_while_the_worker_drains():
    service, pool = FakeTaskService(lease_seconds=2.0), FakePool(1)
    task = service.submit(1)[0]

    def play() -> None:
        pool.wait_until(lambda: pool.started, "the start")
        terminate()
        service.wait_until(lambda: service.is_interrupted, "the interruption")
        renewals = len(service.renewed)
        service.wait_until(lambda: len(service.renewed) >= renewals + 2, "two renewals after the signal")
        pool.finish(task)

    assert run_worker(service, pool, play) == 0
    assert len(service.settled) == 1


def test_work_that_is_granted_while_the_worker_is_forced_to_stop_is_given_back():
    class Late(FakeTaskService):
        def interrupt(self) -> None:
            self.submit(1)
            super().interrupt()

    service, pool = Late(), FakePool(1)

    def lose_the_launcher() -> None:
        service.wait_until(lambda: service.commands, "a request for work")
        pool.fail(LauncherLost("gone"))

    assert run_worker(service, pool, lose_the_launcher) == 3
    assert len(service.released) == 1
    assert not service.live


@pytest.mark.parametrize(
    ("queues", "told"),
    [
        ({}, "all"),
        ({"queues": ("mail", "images")}, "mail,images"),
        ({"exclude_queues": ("mail",)}, "all-but:mail"),
        ({"queues": ("images",), "exclude_queues": ("mail",)}, "images"),
    ],
    ids=["all", "some", "all but one", "both"],
)
def test_the_start_tells_what_is_served(caplog, queues, told):
    caplog.set_level(logging.INFO)
    assert run_worker(FakeTaskService(), FakePool(1), drain=True, **queues) == 0
    [line] = [record.getMessage() for record in caplog.records if "worker started" in record.getMessage()]
    assert line.endswith(f"concurrency=1 queues={told} programs=1")
