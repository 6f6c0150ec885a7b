"""Measurements with one worker: drain, CPU, latency and what it costs while idle."""

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid4

import psutil
import psycopg
from django.db import connections

import ledgence
from ledgence.models import Attempt, DeliveryIntent, Lease, Queue, Task
from ledgence.operations.actions import Operator
from ledgence.operations.queues import pause, resume
from ledgence_project.demo.programs import hold
from ledgence_project.demo.scratch import counts_statements
from ledgence_project.demo.submission import submit_bulk

LATENCY_TASKS = 200
LATENCY_PAUSE_SECONDS = 0.05
MANAGE = Path(__file__).resolve().parents[2] / "manage.py"


@contextmanager
def run_worker(slots: int, *options: str) -> Iterator[psutil.Process]:
    """Run one worker on the benchmark's queue."""
    own = ["--queue", "bench", "--concurrency", str(slots), *options]
    command = [sys.executable, str(MANAGE), "ledgence_worker", *own]
    process = subprocess.Popen(command, env=os.environ | {"LOG_LEVEL": "WARNING"})
    try:
        yield psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def warm_up(slots: int, worker: psutil.Process, *, using: str) -> None:
    """Make the worker start every process, before anything is measured."""
    ledgence.submit_many(ledgence.NewTask(program=hold, data={"seconds": 3.0}) for _ in range(slots))
    wait_until_done(worker, using=using)


def drain(
    tasks: int, process: psutil.Process, *, using: str, others: Mapping[str, psutil.Process] = MappingProxyType({})
) -> tuple[float, dict[str, float]]:
    """Measure from the moment the queue may hand out its work to the last settlement; return rate and CPU a task."""
    queue = Queue.objects.using(using).get(name="bench")
    pause([queue.pk], operator(), using=using)
    submit_bulk(tasks, using=using)
    before = cpu_seconds(process, using=using, others=others)
    began = time.perf_counter()
    resume([queue.pk], operator(), using=using)
    wait_until_done(process, using=using)
    seconds = time.perf_counter() - began
    after = cpu_seconds(process, using=using, others=others)
    return tasks / seconds, {key: round((after[key] - before[key]) / tasks * 1e6, 1) for key in before}


def operator() -> Operator:
    """Return a new action of the benchmark's."""
    return Operator(action_id=uuid4(), name="benchmark", reason="measurement")


def wait_until_done(worker: psutil.Process, *, using: str) -> None:
    """Look ten times a second: cheap next to what is measured, at most 0.1 s late. Fails when the worker is gone."""
    while DeliveryIntent.objects.using(using).exists() or Lease.objects.using(using).exists():
        if not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE:
            raise RuntimeError(f"The benchmark's worker, process {worker.pid}, ended before its work: see its output.")
        time.sleep(0.1)


def cpu_seconds(process: psutil.Process, *, using: str, others: Mapping[str, psutil.Process]) -> dict[str, float]:
    """Return the CPU seconds so far of the worker's processes, the database's for this one, and others by their names.

    The database's shared ones (WAL writer, checkpointer) are left out: they work for other databases as well.
    """
    with connections[using].cursor() as cursor:
        cursor.execute("select pid from pg_stat_activity where datname = current_database()")
        servers = [psutil.Process(pid) for (pid,) in cursor.fetchall() if psutil.pid_exists(pid)]
    seconds = {"worker": cpu_seconds_of(process), "database": _sum_cpu(servers)}
    return seconds | {name: cpu_seconds_of(other) for name, other in others.items()}


def cpu_seconds_of(process: psutil.Process) -> float:
    """Return the CPU seconds so far of a process and all that it started."""
    return _sum_cpu([process, *process.children(recursive=True)])


def _sum_cpu(processes: list[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def idle_statements(outside: psycopg.Connection, seconds: float, *, using: str) -> float | None:
    """Count the statements of an idle worker for a while, without BEGIN and COMMIT; None if the server cannot."""
    if not counts_statements(outside):
        # Others measure meanwhile what the idle worker costs.
        time.sleep(seconds)
        return None
    name = connections.settings[using]["NAME"]
    connections[using].close()
    outside.execute("select pg_stat_statements_reset()")
    time.sleep(seconds)
    row = outside.execute(
        "select sum(calls) from pg_stat_statements s join pg_database d on d.oid = s.dbid "
        "where d.datname = %s and query !~* '^(begin|commit|rollback)'",
        [name],
    ).fetchone()
    return round(float(row[0] or 0) / seconds, 2) if row else None


def latencies(submit: Callable[[], UUID], worker: psutil.Process, *, using: str) -> dict[str, float]:
    """Measure from the call of ``submit`` to the first line of user code, on an idle worker, in milliseconds."""
    called = {}
    for _ in range(LATENCY_TASKS):
        now = time.time()
        called[submit()] = now
        time.sleep(LATENCY_PAUSE_SECONDS)
    wait_until_done(worker, using=using)
    rows = Task.objects.using(using).filter(pk__in=called).values_list("pk", "result")
    began: dict[Any, Any] = dict(rows)
    cuts = statistics.quantiles(((began[pk] - moment) * 1000 for pk, moment in called.items()), n=100)
    return {"p50": round(cuts[49], 2), "p95": round(cuts[94], 2), "p99": round(cuts[98], 2)}


def grow(tasks: int, *, using: str) -> None:
    """Add finished tasks with their attempts, as if they had run, and let the server know its tables again."""
    sample = Attempt.objects.using(using).filter(outcome="succeeded").order_by("-pk")[0]
    with connections[using].cursor() as cursor:
        cursor.execute(GROW, {"task": sample.task_id, "attempt": sample.pk, "count": tasks})
        cursor.execute("vacuum analyze")


# Version 7 ids of about the sample's time, so that new tasks go to the end of the index, as they would.
GROW = """
with task as (
    insert into ledgence_task (id, tenant, namespace, queue_id, program_id, policy_id, priority, submitted_at, data,
                               outcome, finished_at, result, revision)
    select overlay(gen_random_uuid()::text placing left(t.id::text, 8) from 1 for 8)::uuid, t.tenant, t.namespace,
           t.queue_id, t.program_id, t.policy_id, t.priority, t.submitted_at, t.data, t.outcome, t.finished_at,
           t.result, t.revision
    from ledgence_task t, generate_series(1, %(count)s) where t.id = %(task)s
    returning id
)
insert into ledgence_attempt (task_id, number, cause, session_id, token, claimed_at, authorized_at, lease_expires_at,
                              finished_at, outcome, consequence, settlement, report, delivery_mode, available_at)
select task.id, 1, a.cause, a.session_id, gen_random_uuid(), a.claimed_at, a.authorized_at, a.lease_expires_at,
       a.finished_at, a.outcome, a.consequence, a.settlement, a.report, a.delivery_mode, a.available_at
from ledgence_attempt a, task where a.id = %(attempt)s
"""
