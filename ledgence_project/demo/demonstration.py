"""The course of the demonstration: submit, work, kill, recover, check."""

import os
import secrets
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from django.db.models import Count

import ledgence
from ledgence.audit import audit
from ledgence.conf import get_settings
from ledgence.handle import TaskHandle
from ledgence.models import Attempt, Lease, Task
from ledgence_project.demo.checks import check_results, check_starts
from ledgence_project.demo.effects import FOLDER_VARIABLE, read_starts
from ledgence_project.demo.programs import inspect

LEASE_SECONDS = 5.0
PROGRESS_SECONDS = 2.0
POLL_SECONDS = 0.05
MANAGE = Path(__file__).resolve().parents[2] / "manage.py"

type Say = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the demonstration found: one line of figures, and every problem in words."""

    summary: str
    problems: list[str]


class Hopeless(Exception):
    """What the demonstration waits for will not come, or has not come in time."""


class Demonstration:
    """Runs once, on a queue of its own. The database may hold other tasks; only its own are run and counted."""

    def __init__(self, *, effects: Path, concurrency: int, timeout_seconds: float, say: Say) -> None:
        self._effects = effects
        self._concurrency = concurrency
        self._deadline = time.monotonic() + timeout_seconds
        self._say = say
        self._using = get_settings().database
        # Of this run alone: another one beside it, or what an earlier one left behind, is worked off by other workers.
        self._queue = f"demo-{secrets.token_hex(3)}"
        self._workers: list[subprocess.Popen[bytes]] = []

    def run(self, most: int | None) -> Verdict:
        """Submit a task a file, at most ``most``; work them off with a killed worker; check everything."""
        files = python_files()[:most]
        handles = self._submit(files)
        began = time.monotonic()
        with self._stopping_workers():
            first = self._start_worker("first")
            self._start_worker("second")
            victims = self._kill(first, handles)
            killed_at = time.monotonic()
            self._start_worker("third")
            recovered = self._work_off(handles, victims, killed_at)
        seconds = time.monotonic() - began
        return self._check(dict(zip((h.id for h in handles), files, strict=True)), seconds, recovered)

    def _submit(self, files: list[str]) -> list[TaskHandle]:
        began = time.monotonic()
        tasks = (ledgence.NewTask(program=inspect, queue=self._queue, data={"path": path}) for path in files)
        handles = ledgence.submit_many(tasks)
        seconds = time.monotonic() - began
        self._say(f"submitted {len(handles)} tasks in {seconds:.2f} s ({len(handles) / seconds:,.0f} a second)")
        return handles

    def _start_worker(self, name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(MANAGE), "ledgence_worker", "--queue", self._queue, "--name", name]
        environment = os.environ | {
            FOLDER_VARIABLE: str(self._effects),
            "LEDGENCE_LEASE_SECONDS": str(LEASE_SECONDS),
            "LOG_LEVEL": "WARNING",
        }
        worker = subprocess.Popen([*command, "--concurrency", str(self._concurrency)], env=environment)
        self._workers.append(worker)
        self._say(f"worker {name} started, process {worker.pid}")
        return worker

    @contextmanager
    def _stopping_workers(self) -> Iterator[None]:
        try:
            yield
        finally:
            for worker in self._workers:
                worker.send_signal(signal.SIGTERM)
            for worker in self._workers:
                try:
                    worker.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    worker.kill()
                    worker.wait()

    def _kill(self, worker: subprocess.Popen[bytes], handles: list[TaskHandle]) -> set[tuple[UUID, int]]:
        """Kill a worker once it holds leases of which one has started user code; return what it held then."""
        mine = {handle.id for handle in handles}
        while True:
            self._refuse_to_wait_longer("the first worker to start a task", [worker])
            leases = Lease.objects.using(self._using).filter(session__pid=worker.pid)
            held = {(task, number) for task, number in leases.values_list("task_id", "number") if task in mine}
            started = read_starts(self._effects)
            if any(started[f"{task}.{number}"] for task, number in held):
                worker.kill()
                worker.wait()
                self._say(f"worker first killed with SIGKILL while it held {len(held)} leases")
                return held
            time.sleep(POLL_SECONDS)

    def _work_off(self, handles: list[TaskHandle], victims: set[tuple[UUID, int]], killed_at: float) -> float | None:
        """Wait for every task's end; return how long after the kill the last of its attempts was ended."""
        recovered: float | None = None
        shown_at = 0.0
        ids = [handle.id for handle in handles]
        while True:
            self._refuse_to_wait_longer("every task to end", self._workers)
            if recovered is None and self._have_ended(victims):
                recovered = time.monotonic() - killed_at
                self._say(f"the killed worker's leases were over, and its tasks queued again, after {recovered:.1f} s")
            left = Task.objects.using(self._using).filter(pk__gte=min(ids), pk__lte=max(ids), outcome=None).count()
            if time.monotonic() - shown_at >= PROGRESS_SECONDS or not left:
                shown_at = time.monotonic()
                self._say(f"{len(ids) - left} of {len(ids)} done")
            if not left:
                return recovered
            time.sleep(POLL_SECONDS)

    def _have_ended(self, attempts: set[tuple[UUID, int]]) -> bool:
        rows = Attempt.objects.using(self._using).filter(task_id__in={task for task, _ in attempts})
        ended = set(rows.exclude(outcome=None).values_list("task_id", "number"))
        return attempts <= ended

    def _refuse_to_wait_longer(self, what: str, workers: list[subprocess.Popen[bytes]]) -> None:
        if time.monotonic() > self._deadline:
            raise Hopeless(f"demo failed: gave up waiting for {what}")
        codes = [worker.poll() for worker in workers]
        if None not in codes:
            raise Hopeless(f"demo failed: waited for {what}, but no worker is left (exit codes {codes}); see above")

    def _check(self, files: dict[UUID, str], seconds: float, recovered: float | None) -> Verdict:
        self._say("checking every result against an own computation, the audit and the effect log")
        tasks = dict(Task.objects.using(self._using).filter(pk__in=files).values_list("pk", "outcome"))
        attempts = Attempt.objects.using(self._using).filter(task_id__in=files)
        outcomes = dict(attempts.values_list("outcome").annotate(Count("pk")).order_by("outcome"))
        violations = list(audit(using=self._using))
        problems = [f"audit: {v.invariant} does not hold for {', '.join(v.ids[:5])}" for v in violations]
        problems += check_results(files, using=self._using)
        problems += check_starts(read_starts(self._effects), attempts)
        lost = outcomes.get("lost", 0)
        succeeded = sum(outcome == "succeeded" for outcome in tasks.values())
        if lost < 1:
            problems.append("no attempt was lost: the killed worker's leases did not expire")
        if sum(outcomes.values()) != len(files) + lost:
            problems.append(f"{sum(outcomes.values())} attempts are not {len(files)} tasks and {lost} lost attempts")
        self._say("\nattempts by outcome")
        for outcome, count in outcomes.items():
            self._say(f"  {outcome:<12}{count:>8}")
        self._say(f"throughput    {len(files) / seconds:,.0f} tasks a second over {seconds:.1f} s")
        if recovered is None:
            problems.append("the killed worker's attempts were never ended")
        else:
            self._say(f"recovery      {recovered:.1f} s from the kill until its tasks were queued again")
        failed = sum(outcome == "failed" for outcome in tasks.values())
        return Verdict(
            summary=f"submitted={len(files)} succeeded={succeeded} failed={failed} "
            f"attempts={sum(outcomes.values())} lost={lost} violations={len(violations)}",
            problems=problems,
        )


def python_files() -> list[str]:
    """Every .py file of the running Python's library and site-packages."""
    paths = sysconfig.get_paths()
    folders = {Path(paths[name]).resolve() for name in ("stdlib", "purelib", "platlib")}
    return sorted({str(path) for folder in folders for path in folder.rglob("*.py") if path.is_file()})
