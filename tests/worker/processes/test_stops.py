"""Stopping an attempt: time-out, cancel, lost authority, drain."""

import threading
import time
from pathlib import Path

import pytest

from ledgence_worker.pool import StopReason
from ledgence_worker.protocol import Outcome
from tests.worker.processes.conftest import Keeper, Opener, is_alive, wait_until

pytestmark = pytest.mark.process

STOPS = [
    (StopReason.TIME_OUT, Outcome.TIMED_OUT),
    (StopReason.CANCEL, Outcome.CANCELLED),
    (StopReason.AUTHORITY_LOST, Outcome.LOST),
    (StopReason.DRAIN, Outcome.INTERRUPTED),
]


def orders(tmp_path: Path) -> dict[str, str]:
    return {"path": str(tmp_path / "running"), "cleaned": str(tmp_path / "cleaned")}


@pytest.mark.parametrize(("reason", "outcome"), STOPS)
@pytest.mark.parametrize("program", ["cleans-up", "async-sleeps"])
def test_a_stopped_program_cleans_up(
    keeper: Keeper, tmp_path: Path, program: str, reason: StopReason, outcome: Outcome
) -> None:
    pid = keeper.run("pid").result
    work = keeper.start(program, orders(tmp_path))
    keeper.noted(tmp_path / "running")
    keeper.pool.stop(work.task_id, work.number, reason)
    ended = keeper.end_of(work)
    assert (ended.outcome, ended.confirmed) == (outcome, True)
    assert (tmp_path / "cleaned").exists()
    assert ended.report.error is not None
    assert ended.report.error.classes[0] in ("ledgence_worker.context.Stopped", "asyncio.exceptions.CancelledError")
    assert keeper.run("pid").result != pid


def test_the_first_reason_counts(keeper: Keeper, tmp_path: Path) -> None:
    work = keeper.start("sleeps", orders(tmp_path))
    keeper.noted(tmp_path / "running")
    keeper.pool.stop(work.task_id, work.number, StopReason.CANCEL)
    keeper.pool.stop(work.task_id, work.number, StopReason.DRAIN)
    assert keeper.end_of(work).outcome is Outcome.CANCELLED


def test_a_deadline_stops_the_program(keeper: Keeper, tmp_path: Path) -> None:
    before = time.monotonic()
    ended = keeper.run("cleans-up", orders(tmp_path), seconds=0.3)
    assert ended.outcome is Outcome.TIMED_OUT
    assert (tmp_path / "cleaned").exists()
    assert 0.3 <= time.monotonic() - before < 3.0


def test_a_deadline_that_is_not_reached_stops_nothing(keeper: Keeper) -> None:
    assert keeper.run("echo", 1, seconds=0.2).outcome is Outcome.SUCCEEDED
    keeper.ended += keeper.pool.poll(0.4)
    assert keeper.run("echo", 2).outcome is Outcome.SUCCEEDED


def test_a_program_that_ignores_the_stop_is_killed_with_its_children(open_pool: Opener, tmp_path: Path) -> None:
    keeper = open_pool(kill_after_seconds=30.0)
    keeper.pool.shorten_stops(0.3)
    keeper.pool.shorten_stops(60.0)
    for program in ("ignores-stop", "sleeps-with-child"):
        path = tmp_path / program
        work = keeper.start(program, {"path": str(path)})
        pids = [int(word) for word in keeper.noted(path).split()]
        before = time.monotonic()
        keeper.pool.stop(work.task_id, work.number, StopReason.CANCEL)
        ended = keeper.end_of(work)
        assert (ended.outcome, ended.confirmed) == (Outcome.CANCELLED, True)
        assert [pid for pid in pids if is_alive(pid)] == []
        if program == "ignores-stop":
            assert ended.report.exit_status == -9
            assert time.monotonic() - before >= 0.3


def test_a_success_after_the_stop_is_kept(keeper: Keeper, tmp_path: Path) -> None:
    work = keeper.start("finishes-after-stop", orders(tmp_path))
    keeper.noted(tmp_path / "running")
    keeper.pool.stop(work.task_id, work.number, StopReason.CANCEL)
    ended = keeper.end_of(work)
    assert (ended.outcome, ended.result, ended.confirmed) == (Outcome.SUCCEEDED, '"finished"', True)


def test_an_error_after_the_stop_belongs_to_the_stop(keeper: Keeper, tmp_path: Path) -> None:
    work = keeper.start("raises-after-stop", orders(tmp_path))
    keeper.noted(tmp_path / "running")
    keeper.pool.stop(work.task_id, work.number, StopReason.TIME_OUT)
    ended = keeper.end_of(work)
    assert ended.outcome is Outcome.TIMED_OUT
    assert ended.report.error is not None
    assert ended.report.error.message == "while cleaning up"


def test_a_thread_sees_the_cancel_flag(keeper: Keeper, tmp_path: Path) -> None:
    work = keeper.start("watches-flag", orders(tmp_path))
    keeper.noted(tmp_path / "running")
    keeper.pool.stop(work.task_id, work.number, StopReason.CANCEL)
    ended = keeper.end_of(work)
    assert ended.outcome is Outcome.CANCELLED
    assert ended.report.exit_status is None, "the program ended by itself: its thread saw the flag"


def test_an_end_and_a_stop_that_meet_give_one_end(open_pool: Opener) -> None:
    keeper = open_pool(concurrency=4)
    for turn in range(60):
        works = [keeper.start("echo", turn) for _ in range(keeper.pool.free)]
        for work in works[turn % 2 :]:
            keeper.pool.stop(work.task_id, work.number, StopReason.CANCEL)
        for work in works:
            assert keeper.end_of(work).outcome in (Outcome.SUCCEEDED, Outcome.CANCELLED)
        keeper.until(lambda: keeper.pool.free == 4, "four free slots")
    assert keeper.ended == []


def test_stopping_what_is_not_there_does_nothing(keeper: Keeper) -> None:
    work = keeper.start("echo", 1)
    keeper.end_of(work)
    keeper.pool.stop(work.task_id, work.number, StopReason.CANCEL)
    assert keeper.run("echo", 2).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(("reason", "outcome"), STOPS)
def test_an_attempt_whose_process_is_starting_is_withdrawn(
    open_pool: Opener, tmp_path: Path, reason: StopReason, outcome: Outcome
) -> None:
    mark = tmp_path / "mark"
    keeper = open_pool(
        concurrency=2,
        bootstrap="tests.worker.processes.zoo:slow_after_first",
        environment={"LEDGENCE_CHILD_MARK": str(mark)},
    )
    first = keeper.start("sleeps", orders(tmp_path))
    second = keeper.start("echo", 1)
    pid = int(keeper.noted(Path(f"{mark}.starting")))
    keeper.pool.stop(second.task_id, second.number, reason)
    ended = keeper.end_of(second)
    assert (ended.outcome, ended.confirmed) == (outcome, True)
    third = keeper.start("pid")
    mark.unlink()
    assert keeper.end_of(third).result == str(pid), "the process that was starting is used for the next attempt"
    keeper.pool.stop(first.task_id, first.number, StopReason.CANCEL)
    keeper.end_of(first)


def test_a_deadline_counts_while_the_process_starts(open_pool: Opener, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    keeper = open_pool(
        concurrency=1,
        max_tasks_per_child=1,
        bootstrap="tests.worker.processes.zoo:slow_after_first",
        environment={"LEDGENCE_CHILD_MARK": str(mark)},
    )
    keeper.run("echo", 1)
    keeper.until(lambda: keeper.pool.free == 1, "the slot of the used process")
    assert keeper.run("echo", 2, seconds=0.3).outcome is Outcome.TIMED_OUT
    mark.unlink()
    assert keeper.run("echo", 3).result == "3"


def test_wake_ends_a_poll_from_another_thread(keeper: Keeper) -> None:
    threading.Timer(0.1, keeper.pool.wake).start()
    before = time.monotonic()
    assert keeper.pool.poll(10.0) == []
    assert time.monotonic() - before < 5.0


def test_close_kills_what_runs(open_pool: Opener, tmp_path: Path) -> None:
    keeper = open_pool(concurrency=2)
    keeper.start("ignores-stop", {"path": str(tmp_path / "one")})
    keeper.start("sleeps-with-child", {"path": str(tmp_path / "two")})
    pids = [int(word) for name in ("one", "two") for word in keeper.noted(tmp_path / name).split()]
    keeper.pool.close()
    wait_until(lambda: not any(map(is_alive, pids)), "the end of all processes", within=2.0)
