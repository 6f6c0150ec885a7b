"""Measurements over HTTP: one server process, remote workers, and many sessions that wait."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psutil
import psycopg

from ledgence.conf import get_settings
from ledgence.tokens import Role, issue
from ledgence_project.demo.drain import (
    MANAGE,
    cpu_seconds_of,
    drain,
    idle_statements,
    latencies,
    run_worker,
    warm_up,
)
from ledgence_project.demo.programs import clock, noop
from ledgence_project.demo.submission import PAYLOAD
from ledgence_worker.client import Client
from ledgence_worker.connect import TOKEN_VARIABLE
from ledgence_worker.programs import Program

IDLE_SESSIONS = 200
SUBMITTED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFigures:
    """The figures over HTTP. Rates are tasks a second; the CPU is the server process's share of one core."""

    submit_per_s: float
    drain_per_s: float
    drain_two_per_s: float
    latency_ms: dict[str, float]
    cpu_us_per_task: dict[str, float]
    idle_queries_per_s: float | None
    idle_cpu_percent: float


def measure(
    *, using: str, outside: psycopg.Connection, tasks: int, slots: int, idle: float, say: Callable[[str], object]
) -> RemoteFigures:
    """Measure everything over HTTP, in the scratch database that ``using`` points at. No other worker runs."""
    settings = get_settings()
    _, token = issue(
        name="benchmark",
        roles=[Role.SUBMIT, Role.WORK],
        tenant=settings.tenant,
        namespace=settings.namespace,
        using=using,
    )
    os.environ[TOKEN_VARIABLE] = token
    with run_server() as (server, url), Client(url, token) as client:
        with run_worker(slots, "--server", url) as worker:
            warm_up(slots, worker, using=using)
            say("draining over HTTP")
            drained, cpu = drain(tasks, worker, using=using, others={"server": server})
            say("latency over HTTP")
            latency = latencies(lambda: submit(client, clock), worker, using=using)
            with run_worker(slots, "--server", url) as second:
                warm_up(2 * slots, second, using=using)
                say("draining over HTTP with two workers")
                drained_two, _ = drain(tasks, worker, using=using)
        say("submitting over HTTP")
        began = time.perf_counter()
        for _ in range(SUBMITTED):
            submit(client, noop)
        submitted = SUBMITTED / (time.perf_counter() - began)
        say(f"{IDLE_SESSIONS} sessions waiting over HTTP")
        with idle_sessions(url):
            before = cpu_seconds_of(server)
            statements = idle_statements(outside, idle, using=using)
            idle_cpu = (cpu_seconds_of(server) - before) / idle * 100
    return RemoteFigures(
        submit_per_s=round(submitted),
        drain_per_s=round(drained),
        drain_two_per_s=round(drained_two),
        latency_ms=latency,
        cpu_us_per_task=cpu,
        idle_queries_per_s=statements,
        idle_cpu_percent=round(idle_cpu, 1),
    )


def submit(client: Client, program: Program[Any]) -> UUID:
    """Submit one task of the benchmark's queue."""
    return client.submit(program.name, PAYLOAD, version=program.version, queue="bench").id


@contextmanager
def run_server() -> Iterator[tuple[psutil.Process, str]]:
    """Run the project's ASGI application with one process, and yield it and its address."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        number, port = listening.fileno(), listening.getsockname()[1]
        options = ["--worker-class", "asgi", "--workers", "1", "--bind", f"fd://{number}", "--keep-alive", "5"]
        quiet = ["--graceful-timeout", "2", "--log-level", "warning", "--no-control-socket"]
        command = [sys.executable, "-m", "gunicorn", *options, *quiet, "ledgence_project.asgi:application"]
        process = subprocess.Popen(command, pass_fds=[number], cwd=MANAGE.parent)
        try:
            yield psutil.Process(process.pid), f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


@contextmanager
def idle_sessions(url: str) -> Iterator[None]:
    """Let another process hold many sessions that wait for work, each on a socket of its own."""
    command = [sys.executable, "-m", "ledgence_project.demo.idle_sessions", url, str(IDLE_SESSIONS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=MANAGE.parent, text=True)
    try:
        if process.stdout is None or process.stdout.readline() != "waiting\n":
            raise RuntimeError("The sessions that should wait do not: see their output.")
        yield
    finally:
        process.kill()
        process.communicate()
