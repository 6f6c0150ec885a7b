"""Fixtures: pools of the zoo's programs, closed at the end, and proof that no process is left."""

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ledgence_worker.pool import Ended
from ledgence_worker.pool_settings import PoolSettings
from ledgence_worker.processes import ProcessPool
from ledgence_worker.protocol import Assignment
from ledgence_worker.strict_json import dumps

ZOO = "tests.worker.processes.zoo"
PATIENCE_SECONDS = 20.0


def assignment(program: str, value: object = None, **changes: Any) -> Assignment:
    """Return an assignment of one of the zoo's programs."""
    facts: dict[str, Any] = {
        "task_id": uuid4(),
        "number": 1,
        "token": uuid4(),
        "cause": "submitted",
        "tenant": "acme",
        "namespace": "default",
        "queue": "main",
        "program": program,
        "version": "1",
        "data": dumps(value, what="data"),
        "claimed_at": datetime.now(UTC),
        "remaining_seconds": 60.0,
        "timeout_seconds": 300.0,
    }
    return Assignment(**(facts | changes))


class Keeper:
    """Drives one pool as the worker's loop does, and waits for what a test expects."""

    def __init__(self, pool: ProcessPool) -> None:
        self.pool = pool
        self.ended: list[Ended] = []

    def start(self, program: str, value: object = None, *, seconds: float | None = None, **changes: Any) -> Assignment:
        work = assignment(program, value, **changes)
        self.pool.start(work, deadline=None if seconds is None else time.monotonic() + seconds)
        return work

    def run(self, program: str, value: object = None, *, seconds: float | None = None, **changes: Any) -> Ended:
        return self.end_of(self.start(program, value, seconds=seconds, **changes))

    def end_of(self, work: Assignment) -> Ended:
        self.until(lambda: any(end.task_id == work.task_id for end in self.ended), f"the end of {work.program}")
        found = next(end for end in self.ended if end.task_id == work.task_id)
        self.ended.remove(found)
        return found

    def until(self, condition: Callable[[], bool], what: str, within: float = PATIENCE_SECONDS) -> None:
        give_up_at = time.monotonic() + within
        while not condition():
            assert time.monotonic() < give_up_at, f"{what} did not come; free={self.pool.free} ended={self.ended}"
            self.ended += self.pool.poll(0.02)

    def noted(self, path: Path) -> str:
        """Wait until a program has written this file, and return what it wrote."""
        self.until(path.exists, f"the file {path.name}")
        return path.read_text()


type Opener = Callable[..., Keeper]


@pytest.fixture
def open_pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
    """Open pools of the zoo; keyword arguments are PoolSettings."""
    # It would hide what is left in a process's buffers.
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    pools: list[ProcessPool] = []

    def opener(*, environment: dict[str, str] | None = None, **settings: Any) -> Keeper:
        values: dict[str, Any] = {"concurrency": 1, "bootstrap": "ledgence_worker.bootstrap:import_modules"} | settings
        variables = {"LEDGENCE_CHILD_MODULES": ZOO} | (environment or {})
        pool = ProcessPool(PoolSettings(environment=variables, **values))
        pools.append(pool)
        pool.open()
        return Keeper(pool)

    yield opener
    for pool in pools:
        pool.close()


@pytest.fixture
def keeper(open_pool: Opener) -> Keeper:
    """Return an open pool with one slot."""
    return open_pool()


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is not merely waiting to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition: Callable[[], bool], what: str, within: float = PATIENCE_SECONDS) -> None:
    """Wait for something outside of any pool."""
    give_up_at = time.monotonic() + within
    while not condition():
        assert time.monotonic() < give_up_at, f"{what} did not come within {within} s"
        time.sleep(0.01)


def open_descriptors() -> int:
    """Return how many file descriptors this process holds."""
    return len(os.listdir("/proc/self/fd"))


def launcher_pid() -> int:
    """Return the process id of the launcher that this process started."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as children:
        for pid in children.read().split():
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as command:
                if "ledgence_worker.launcher" in command.read():
                    return int(pid)
    raise AssertionError("no launcher is running")
