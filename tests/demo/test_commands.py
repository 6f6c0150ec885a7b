"""The demonstration and the benchmark as their users call them."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from subprocess import PIPE

import pytest
from django.db import connection

from ledgence_project.demo.remote import RemoteFigures

pytestmark = [pytest.mark.slow, pytest.mark.process]

MANAGE = Path(__file__).resolve().parents[2] / "manage.py"


@dataclass(frozen=True, kw_only=True)
class Done:
    pid: int
    returncode: int
    stdout: str
    stderr: str


def manage(database_url: str, *arguments: str) -> Done:
    environment = os.environ | {"DATABASE_URL": database_url, "DEBUG": "true"}
    command = [sys.executable, str(MANAGE), *arguments]
    with subprocess.Popen(command, env=environment, stdout=PIPE, stderr=PIPE, text=True) as process:
        stdout, stderr = process.communicate(timeout=110)
    return Done(pid=process.pid, returncode=process.returncode, stdout=stdout, stderr=stderr)


def test_the_demonstration_survives_a_killed_worker_and_says_so(database_url):
    done = manage(database_url, "ledgence_demo", "--files", "300", "--timeout", "90")
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1]
    figures = re.fullmatch(
        r"demo ok: submitted=300 succeeded=300 failed=0 attempts=(\d+) lost=(\d+) violations=0", last
    )
    assert figures, last
    attempts, lost = map(int, figures.groups())
    assert lost >= 1
    assert attempts == 300 + lost


def test_a_demonstration_that_cannot_end_fails_and_leaves_no_worker(database_url):
    done = manage(database_url, "ledgence_demo", "--files", "50", "--timeout", "0.1")
    assert done.returncode == 1
    assert "demo failed" in done.stderr
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from ledgence_workersession where closed_at is null and name <> 'first'")
        assert cursor.fetchone() == (0,)


def test_the_benchmark_prints_every_figure_and_drops_its_database(database_url):
    done = manage(
        database_url,
        "ledgence_bench",
        "--tasks",
        "200",
        "--slots",
        "2",
        "--grown",
        "500",
        "--idle",
        "1",
        "--http",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert set(figures) == {
        "submit_bulk_per_s",
        "submit_single_per_s",
        "sql_limit_per_s",
        "drain_per_s",
        "drain_grown_per_s",
        "idle_queries_per_s",
        "latency_ms",
        "cpu_us_per_task",
        "slots",
        "tasks",
        "http",
    }
    assert set(figures["http"]) == {field.name for field in fields(RemoteFigures)}
    assert set(figures["http"]["cpu_us_per_task"]) == {"worker", "database", "server"}
    assert figures["http"]["drain_per_s"] > 0
    assert figures["drain_per_s"] > 0
    assert set(figures["latency_ms"]) == {"p50", "p95", "p99"}
    assert set(figures["cpu_us_per_task"]) == {"worker", "database"}
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from pg_database where datname = %s", [f"ledgence_bench_{done.pid}"])
        assert cursor.fetchone() == (0,)
