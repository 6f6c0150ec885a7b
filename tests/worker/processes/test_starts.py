"""How processes start, fail to start, wear out and are let go."""

import json
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ledgence_worker import processes, restarts
from ledgence_worker.errors import BootstrapFailed, InvalidInput
from ledgence_worker.pool_settings import PoolSettings
from ledgence_worker.processes import ProcessPool
from ledgence_worker.protocol import CatalogueEntry, Outcome
from tests.worker.processes.conftest import PATIENCE_SECONDS, ZOO, Opener, is_alive

pytestmark = pytest.mark.process


def test_open_returns_the_catalogue() -> None:
    pool = ProcessPool(
        PoolSettings(
            concurrency=1,
            bootstrap="ledgence_worker.bootstrap:import_modules",
            environment={"LEDGENCE_CHILD_MODULES": ZOO},
        )
    )
    try:
        catalogue = pool.open()
    finally:
        pool.close()
    assert CatalogueEntry(name="async-echo", version="1", entry_point=f"{ZOO}:async_echo") in catalogue
    assert list(catalogue) == sorted(catalogue, key=lambda entry: (entry.name, entry.version))


@pytest.mark.parametrize(
    ("bootstrap", "texts"),
    [
        (f"{ZOO}:fails", ["builtins.RuntimeError: no programs today", "zoo.py", "about to fail"]),
        (f"{ZOO}:leaves", ["exit status 7", "about to leave"]),
        (f"{ZOO}:hangs", ["The programs did not load in 0.5 s."]),
        (f"{ZOO}:missing", ['name it "module:function"']),
        ("no.such.module:load", ["No module named 'no'"]),
    ],
)
def test_a_bootstrap_that_fails_says_why(open_pool: Opener, bootstrap: str, texts: list[str]) -> None:
    with pytest.raises(BootstrapFailed) as caught:
        open_pool(bootstrap=bootstrap, handshake_seconds=0.5 if bootstrap.endswith("hangs") else 60.0)
    for text in texts:
        assert text in str(caught.value)


def test_later_starts_that_fail_interrupt_their_attempts_and_pause(
    open_pool: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "PAUSE_SECONDS", 0.2)
    mark = tmp_path / "mark"
    keeper = open_pool(
        concurrency=2,
        bootstrap=f"{ZOO}:fails_after_first",
        environment={"LEDGENCE_CHILD_MARK": str(mark)},
    )
    running = keeper.start("sleeps", {"path": str(tmp_path / "pid")})
    keeper.noted(tmp_path / "pid")
    for _ in range(2):
        keeper.until(lambda: keeper.pool.free == 1, "the end of the pause")
        ended = keeper.run("echo", 1)
        assert (ended.outcome, ended.confirmed) == (Outcome.INTERRUPTED, True)
        assert ended.report.error is not None
        assert ended.report.error.message == "no further process today"
        assert keeper.pool.free == 0, "no attempt is taken during the pause"
    mark.unlink()
    keeper.until(lambda: keeper.pool.free == 1, "the end of the pause")
    assert keeper.run("echo", 2).result == "2"
    assert running.task_id not in [ended.task_id for ended in keeper.ended]


def test_a_process_killed_while_it_starts_interrupts_its_attempt(open_pool: Opener, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    keeper = open_pool(
        max_tasks_per_child=1,
        bootstrap=f"{ZOO}:slow_after_first",
        environment={"LEDGENCE_CHILD_MARK": str(mark)},
    )
    keeper.run("echo", 1)
    keeper.until(lambda: keeper.pool.free == 1, "the slot of the used process")
    work = keeper.start("echo", 2)
    os.kill(int(keeper.noted(Path(f"{mark}.starting"))), signal.SIGKILL)
    ended = keeper.end_of(work)
    assert (ended.outcome, ended.report.exit_status, ended.confirmed) == (Outcome.INTERRUPTED, -9, True)
    mark.unlink()
    keeper.until(lambda: keeper.pool.free == 1, "the end of the pause")
    assert keeper.run("echo", 3).result == "3"


def test_a_process_with_other_programs_is_refused(open_pool: Opener, tmp_path: Path) -> None:
    keeper = open_pool(
        max_tasks_per_child=1,
        bootstrap=f"{ZOO}:changes",
        environment={"LEDGENCE_CHILD_MARK": str(tmp_path / "mark")},
    )
    keeper.run("echo", 1)
    keeper.until(lambda: keeper.pool.free == 1, "the slot of the used process")
    ended = keeper.run("echo", 2)
    assert ended.outcome is Outcome.INTERRUPTED
    assert ended.report.error is not None
    assert "loaded other programs" in ended.report.error.message


def test_a_lack_of_descriptors_interrupts_the_attempt_and_not_the_pool(open_pool: Opener) -> None:
    keeper = open_pool(max_tasks_per_child=1)
    keeper.run("echo", 1)
    keeper.until(lambda: keeper.pool.free == 1, "the slot")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")), limits[1]))
    try:
        work = keeper.start("echo", 2)
        ended = keeper.pool.poll(1.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert [(one.task_id, one.outcome, one.confirmed) for one in ended] == [(work.task_id, Outcome.INTERRUPTED, True)]
    keeper.until(lambda: keeper.pool.free == 1, "the end of the pause")
    assert keeper.run("echo", 3).result == "3"


def test_concurrency_counts_every_process(open_pool: Opener, tmp_path: Path) -> None:
    keeper = open_pool(concurrency=3)
    works = []
    for number in range(3):
        assert keeper.pool.free == 3 - number
        works.append(keeper.start("sleeps", {"path": str(tmp_path / str(number))}))
    with pytest.raises(RuntimeError, match="No slot is free"):
        keeper.start("echo", 1)
    pids = {keeper.noted(tmp_path / str(number)) for number in range(3)}
    assert len(pids) == 3


def test_a_process_is_recycled_after_its_share_of_tasks(open_pool: Opener) -> None:
    keeper = open_pool(max_tasks_per_child=2)
    pids = []
    for _ in range(4):
        keeper.until(lambda: keeper.pool.free == 1, "the slot")
        pids.append(keeper.run("pid").result)
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_a_process_is_recycled_when_it_grows(open_pool: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_MEMORY_CHECK_SECONDS", 0.0)
    keeper = open_pool(max_rss_bytes=80 * 1024 * 1024)
    small = keeper.run("pid").result
    assert keeper.run("allocates").result == small
    keeper.until(lambda: keeper.pool.free == 1, "the slot")
    assert keeper.run("pid").result != small


def test_idle_processes_are_let_go_but_for_the_last(open_pool: Opener) -> None:
    keeper = open_pool(concurrency=3, idle_seconds=0.2)
    pids = {int(keeper.end_of(work).result or "") for work in [keeper.start("pid") for _ in range(3)]}
    assert len(pids) == 3
    keeper.until(lambda: len(living(pids)) == 1, "the end of the idle processes")
    keeper.until(lambda: keeper.pool.free == 3, "the slots")
    [left] = living(pids)
    for _ in range(2):
        # Its time is over once more, and it is still there.
        keeper.until(passed(0.3), "another rest")
        assert int(keeper.run("pid").result or "") == left


def living(pids: set[int]) -> set[int]:
    return {pid for pid in pids if is_alive(pid)}


def passed(seconds: float) -> Callable[[], bool]:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() >= until


def test_the_environment_is_an_allow_list(open_pool: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("LEDGENCE_API_TOKEN", "secret")
    monkeypatch.setenv("LEDGENCE_CHILD_COLOUR", "green")
    monkeypatch.setenv("MY_OWN", "mine")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    keeper = open_pool(env_allow=("MY_OWN",))
    environment = json.loads(keeper.run("inherited").result or "")["environment"]
    assert "secret" not in environment.values()
    assert environment["LEDGENCE_CHILD_COLOUR"] == "green"
    assert environment["MY_OWN"] == "mine"
    assert environment["LC_ALL"] == "C.UTF-8"
    assert environment["PYTHONPATH"] == "/nowhere", "ours was only for the start"


def test_settings_are_checked() -> None:
    wrongs = (
        {"concurrency": 0},
        {"max_tasks_per_child": 0},
        {"max_rss_bytes": -1},
        {"kill_after_seconds": float("nan")},
        {"idle_seconds": 0},
    )
    for wrong in wrongs:
        with pytest.raises(InvalidInput):
            PoolSettings(**({"concurrency": 1, "bootstrap": "a:b"} | wrong))  # type: ignore[arg-type]


def test_a_slot_that_becomes_free_is_told_at_once(open_pool: Opener) -> None:
    pool = (keeper := open_pool(max_tasks_per_child=1)).pool
    keeper.run("echo", 1)
    began = time.monotonic()
    while pool.free == 0:
        assert pool.poll(PATIENCE_SECONDS) == []
    assert time.monotonic() - began < PATIENCE_SECONDS / 2
