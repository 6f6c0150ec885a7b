"""What a program starts ends with it, and everything ends with the worker."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ledgence_worker.errors import LauncherLost
from ledgence_worker.pool import StopReason
from ledgence_worker.protocol import Outcome
from tests.worker.processes import supervisor
from tests.worker.processes.conftest import Keeper, Opener, is_alive, launcher_pid, open_descriptors, wait_until

pytestmark = pytest.mark.process


@pytest.mark.parametrize("own_session", [False, True])
def test_a_child_left_behind_is_killed_before_the_end_is_told(keeper: Keeper, own_session: bool) -> None:
    before = keeper.run("pid").result
    ended = keeper.run("leaves-child", {"own_session": own_session})
    assert (ended.outcome, ended.confirmed) == (Outcome.SUCCEEDED, True)
    assert not is_alive(int(ended.result or ""))
    assert keeper.run("pid").result != before


def test_a_daemon_left_behind_is_killed_too(keeper: Keeper) -> None:
    ended = keeper.run("leaves-daemon")
    assert (ended.outcome, ended.confirmed) == (Outcome.SUCCEEDED, True)
    assert not is_alive(int(ended.report.output))


def test_children_of_a_crashed_program_are_killed(keeper: Keeper, tmp_path: Path) -> None:
    work = keeper.start("sleeps-with-child", {"path": str(tmp_path / "pids")})
    pids = [int(word) for word in keeper.noted(tmp_path / "pids").split()]
    os.kill(pids[-1], signal.SIGKILL)
    ended = keeper.end_of(work)
    assert (ended.outcome, ended.confirmed) == (Outcome.CRASHED, True)
    assert [pid for pid in pids if is_alive(pid)] == []


def test_a_neighbour_keeps_its_children(open_pool: Opener, tmp_path: Path) -> None:
    keeper = open_pool(concurrency=2)
    work = keeper.start("sleeps-with-child", {"path": str(tmp_path / "pids")})
    pids = [int(word) for word in keeper.noted(tmp_path / "pids").split()]
    for _ in range(3):
        assert keeper.run("leaves-child", {"own_session": True}).confirmed
    assert all(map(is_alive, pids))
    keeper.pool.stop(work.task_id, work.number, StopReason.CANCEL)
    keeper.end_of(work)


def test_a_thread_left_behind_replaces_the_process(keeper: Keeper) -> None:
    ended = keeper.run("leaves-thread")
    assert (ended.outcome, ended.confirmed) == (Outcome.SUCCEEDED, True)
    assert not is_alive(int(ended.result or ""))


def test_another_working_directory_replaces_the_process(keeper: Keeper) -> None:
    ended = keeper.run("leaves-directory")
    assert (ended.outcome, ended.confirmed) == (Outcome.SUCCEEDED, True)
    assert not is_alive(int(ended.result or "")), "relative names would mean other files to the next attempt"


@pytest.mark.parametrize("timer", [signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF])
def test_a_timer_left_behind_replaces_the_process(keeper: Keeper, timer: int) -> None:
    ended = keeper.run("leaves-timer", int(timer))
    assert (ended.outcome, ended.confirmed) == (Outcome.SUCCEEDED, True)
    assert not is_alive(int(ended.result or "")), "the timer would have ended the next attempt"


def test_an_idle_thread_of_an_executor_does_not(keeper: Keeper) -> None:
    assert keeper.run("uses-executor").result == keeper.run("uses-executor").result


@pytest.mark.parametrize("victim", ["supervisor", "launcher", "launcher of a stopped supervisor"])
def test_nothing_outlives_the_supervisor(tmp_path: Path, victim: str) -> None:
    pids: list[int] = []
    process = subprocess.Popen([sys.executable, supervisor.__file__, str(tmp_path)], stderr=subprocess.PIPE)
    try:
        wait_until((tmp_path / "running").exists, "the running attempts")
        pids = [int(word) for word in (tmp_path / "running").read_text().split()]
        launcher = int((tmp_path / "launcher").read_text())
        assert all(map(is_alive, [*pids, launcher]))
        if victim == "supervisor":
            process.kill()
            doomed = [*pids, launcher]
        else:
            if victim != "launcher":
                process.send_signal(signal.SIGSTOP)
            os.kill(launcher, signal.SIGKILL)
            # Only the launcher could find the children, and only the supervisor those in the group.
            outside = (tmp_path / ("sessions" if victim == "launcher" else "children")).read_text().split()
            doomed = [pid for pid in pids if str(pid) not in outside]
        assert doomed
        wait_until(lambda: not any(map(is_alive, doomed)), "the end of all processes", within=2.0)
        process.send_signal(signal.SIGCONT)
        status = process.wait(10.0)
        assert status == (-9 if victim == "supervisor" else supervisor.LAUNCHER_LOST)
    finally:
        process.kill()
        process.communicate()
        for pid in pids:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


def test_a_lost_launcher_is_told_after_the_ends(keeper: Keeper, tmp_path: Path) -> None:
    work = keeper.start("sleeps", {"path": str(tmp_path / "pid")})
    keeper.noted(tmp_path / "pid")
    os.kill(launcher_pid(), signal.SIGKILL)
    ended = keeper.end_of(work)
    assert (ended.outcome, ended.confirmed) == (Outcome.CRASHED, False)
    with pytest.raises(LauncherLost):
        keeper.pool.poll(5.0)
    with pytest.raises((LauncherLost, RuntimeError)):
        keeper.start("echo", 1)


def test_an_unconfirmed_process_costs_its_slot_until_it_is_gone(open_pool: Opener, tmp_path: Path) -> None:
    keeper = open_pool(concurrency=2, kill_after_seconds=0.1, confirm_seconds=0.3)
    work = keeper.start("ignores-stop", {"path": str(tmp_path / "pid")})
    keeper.noted(tmp_path / "pid")
    launcher = launcher_pid()
    os.kill(launcher, signal.SIGSTOP)
    try:
        keeper.pool.stop(work.task_id, work.number, StopReason.DRAIN)
        ended = keeper.end_of(work)
        assert (ended.outcome, ended.confirmed) == (Outcome.INTERRUPTED, False)
        assert keeper.pool.free == 1
    finally:
        os.kill(launcher, signal.SIGCONT)
    keeper.until(lambda: keeper.pool.free == 2, "the quarantined slot")
    assert keeper.ended == []
    assert keeper.run("echo", 1).result == "1"


def test_a_process_inherits_only_its_wires(keeper: Keeper) -> None:
    seen = json.loads(keeper.run("inherited").result or "")
    own = seen["own"]
    assert own["0"] == "/dev/null"
    assert own["1"] == own["2"]
    assert own["1"].startswith("pipe:")
    assert own["3"].startswith("socket:")
    assert set(own) <= {"0", "1", "2", "3"}
    # The third is the folder that ls itself has open.
    assert seen["grandchild"] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_descriptors_do_not_grow(open_pool: Opener, count: int) -> None:
    keeper = open_pool(concurrency=2, max_tasks_per_child=1)
    keeper.run("echo", 0)
    keeper.until(lambda: keeper.pool.free == 2, "the slots")
    before = open_descriptors()
    for number in range(count // 2):
        works = [keeper.start("exits", 1), keeper.start("echo", number)]
        for work in works:
            keeper.end_of(work)
        keeper.until(lambda: keeper.pool.free == 2, "the slots")
    assert open_descriptors() == before
    launcher = launcher_pid()
    assert len(os.listdir(f"/proc/{launcher}/fd")) < 12
