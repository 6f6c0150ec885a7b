"""The scene of a fault test: one database, workers before it, and at the end the checks that hold after every fault."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connections

import ledgence
from ledgence.audit import audit
from ledgence.handle import TaskHandle
from ledgence.models import Attempt, Lease, State, Task
from ledgence.new_task import NewTask
from ledgence.worker_connections import is_pooled
from ledgence_project.demo.checks import check_starts
from ledgence_project.demo.effects import FOLDER_VARIABLE, read_starts
from tests.faults.waiting import DEADLINE_SECONDS, wait_until
from tests.faults.worker_process import MANAGE, MARK_VARIABLE, WorkerProcess, end_all, living

#: Long enough that no lease expires because the machine is busy.
LEASE_SECONDS = 20.0
#: For tests in which one must expire: renewed every 0.75 s, user code stopped 0.5 s before its end.
SHORT_LEASE_SECONDS = 3.0
short_lease = pytest.mark.parametrize("lease_seconds", [pytest.param(SHORT_LEASE_SECONDS, id="short_lease")])
GONE_SECONDS = 2.0
QUEUE = "zoo"

type Ends = list[tuple[int, str | None]]


class Site:
    """Starts workers and submits to one database. check() is called after each test; see conftest.py."""

    def __init__(self, alias: str, url: str, folder: Path, lease_seconds: float) -> None:
        self.alias = alias
        self.lease_seconds = lease_seconds
        self.url = url
        self.folder = folder
        self.effects = folder / "effects"
        self.effects.mkdir()
        self.workers: list[WorkerProcess] = []
        self._mark = uuid4().hex
        self._submitted: list[TaskHandle] = []

    def environment(self, **variables: str) -> dict[str, str]:
        return (
            os.environ
            | {
                "DATABASE_URL": self.url,
                "DJANGO_SETTINGS_MODULE": "tests.compat.pooled" if is_pooled(self.alias) else "tests.faults.settings",
                "LEDGENCE_LEASE_SECONDS": str(self.lease_seconds),
                "LOG_LEVEL": "INFO",
                FOLDER_VARIABLE: str(self.effects),
                MARK_VARIABLE: self._mark,
            }
            | variables
        )

    def start_worker(self, *arguments: str, concurrency: int = 1, **variables: str) -> WorkerProcess:
        """Start a worker and do not wait for it."""
        return self.start([*self._options(concurrency), *arguments], self.environment(**variables))

    def worker(self, *arguments: str, concurrency: int = 1, **variables: str) -> WorkerProcess:
        """Start a worker and return it when it asks for work."""
        worker = self.start_worker(*arguments, concurrency=concurrency, **variables)
        worker.wait_until_started()
        return worker

    def _options(self, concurrency: int) -> list[str]:
        return ["--concurrency", str(concurrency), "--queue", QUEUE]

    def start(
        self, options: Sequence[str], environment: Mapping[str, str], command: Sequence[str] = MANAGE
    ) -> WorkerProcess:
        """Start a command of any kind and do not wait for it; check() wants it gone at the end."""
        log = self.folder / f"worker-{len(self.workers)}.log"
        worker = WorkerProcess(options, environment, log, command)
        self.workers.append(worker)
        return worker

    # Any: whatever JSON a program takes.
    def submit(self, program: str, data: Any = None, **options: Any) -> TaskHandle:
        """Submit a task of the zoo. A retry follows at once, unless the options say otherwise."""
        [handle] = self.submit_many(program, [data], **options)
        return handle

    def submit_many(self, program: str, values: Iterable[Any], **options: Any) -> list[TaskHandle]:
        """Submit one task for each value, all in one transaction; otherwise as submit()."""
        # Any: each option has a type of its own.
        defaults: dict[str, Any] = {"version": "1", "queue": QUEUE, "backoff": ledgence.Backoff(initial_seconds=0.0)}
        new = [NewTask(program=program, data=data, **(defaults | options)) for data in values]
        handles = ledgence.submit_many(new, using=self.alias)
        self._submitted += handles
        return handles

    def gate(self, name: str = "gate") -> str:
        """Return the path that programs wait for; open() makes it exist."""
        return str(self.folder / name)

    def open(self, gate: str) -> None:
        Path(gate).touch()

    def reconnect(self) -> None:
        """Drop this process's own connection, after the server's end was cut."""
        connections[self.alias].close()

    def is_open(self, gate: str) -> bool:
        return Path(gate).exists()

    def close(self, gate: str) -> None:
        Path(gate).unlink()

    def starts(self) -> Counter[str]:
        """How often user code started, by "task.number"."""
        return read_starts(self.effects)

    def wait_for_start(self, task: TaskHandle, number: int = 1) -> int:
        """Wait until user code of an attempt runs, and return the id of its process."""
        line = f"{task.id}.{number}\n"

        def look() -> int | None:
            return next((int(log.stem) for log in self.effects.glob("*.log") if line in log.read_text()), None)

        found = self.wait_until(look, f"user code of {line.strip()}")
        assert found is not None
        return found

    def wait_for_starts(self, count: int) -> None:
        """Wait until user code has started that many times."""
        self.wait_until(lambda: sum(self.starts().values()) >= count, f"{count} starts")

    def signal(self, process: int, signum: signal.Signals) -> None:
        """Signal a process that wait_for_start() returned."""
        os.kill(process, signum)

    def wait_for_end(self, task: TaskHandle, seconds: float = DEADLINE_SECONDS) -> State:
        """Wait until a task is terminal, and return how it ended."""
        self.wait_until(lambda: Task.objects.using(self.alias).get(pk=task.id).outcome, f"{task.id} to end", seconds)
        return task.state

    def wait_for_lease(self, task: TaskHandle, number: int = 1) -> Lease:
        rows = Lease.objects.using(self.alias).filter(pk=task.id, number=number)
        found = self.wait_until(rows.first, f"a lease of {task.id}.{number}")
        assert found is not None
        return found

    def wait_until[T](self, look: Callable[[], T], what: str, seconds: float = DEADLINE_SECONDS) -> T:
        """Wait as wait_until() does, and show the workers' logs when it fails."""
        try:
            return wait_until(look, what, seconds=seconds)
        except AssertionError as error:
            logs = "\n".join(f"{worker.log.name}: {worker.tail()}" for worker in self.workers)
            raise AssertionError(f"{error}\nattempts {self._attempts()}\n{logs}") from None

    def ends(self, task: TaskHandle) -> Ends:
        """Return every attempt's number and outcome."""
        return [(attempt.number, attempt.outcome) for attempt in task.attempts]

    def leases(self) -> int:
        return Lease.objects.using(self.alias).count()

    def sessions(self, name: str = "ledgence %", *, waiting: bool = False) -> list[int]:
        """Return the server's processes for workers' connections of that name; only those that wait for a lock."""
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE %s"
        if waiting:
            query += " AND wait_event_type = 'Lock'"
        with connections[self.alias].cursor() as cursor:
            cursor.execute(query, [name])
            return [pid for (pid,) in cursor.fetchall()]

    def terminate(self, name: str = "ledgence %") -> int:
        """End every worker's connection of that name, and return how many there were."""
        found = self.sessions(name)
        with connections[self.alias].cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s::int[]) pid", [found])
        return len(found)

    def check(self) -> list[str]:
        """Return what is wrong at the end of a test: processes left, invariants broken, work lost or started twice."""
        for worker in self.workers:
            # A test that failed may have left it running; one that passed has ended it.
            if worker.is_running:
                worker.kill()
        return self._left() + self.problems()

    def problems(self) -> list[str]:
        """Return what is wrong at any moment: invariants broken, work lost or started twice."""
        problems = [f"audit: {v.invariant} does not hold for {v.ids[:5]}" for v in audit(using=self.alias)]
        problems += check_starts(self.starts(), self._rows())
        kept = self._kept()
        return problems + [f"task {task} is lost" for task in self._ids() if task not in kept]

    def _left(self) -> list[str]:
        try:
            wait_until(lambda: not living(self._mark), "every process to be gone", seconds=GONE_SECONDS)
        except AssertionError:
            return [f"process left: {command}" for command in end_all(self._mark)]
        return []

    def _rows(self) -> Any:
        return Attempt.objects.using(self.alias).filter(task_id__in=self._ids())

    def _ids(self) -> list[UUID]:
        return [handle.id for handle in self._submitted]

    def _attempts(self) -> list[tuple[UUID, int, str | None]]:
        return list(self._rows().values_list("task_id", "number", "outcome"))

    def _kept(self) -> set[UUID]:
        """Return the tasks that are terminal or can still be run: they have one of the states."""
        # Any: the state is no field.
        rows: Any = Task.objects.using(self.alias).filter(pk__in=self._ids()).with_state().only("pk")
        return {task.pk for task in rows if task.state in State}
