"""Holders of the embedded server: it runs as long as one lives, whatever became of the others."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import sql

from ledgence_project.embedded import held, remove, stop
from ledgence_project.embedded.owner import cluster_of
from ledgence_project.embedded.place import place_of
from ledgence_project.embedded.pytest_plugin import drop_abandoned

pytestmark = pytest.mark.process

HOLD = """
import sys
from pathlib import Path
from ledgence_project.embedded import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def start_holder(checkout: Path) -> subprocess.Popen[str]:
    """Start a process that holds the server until its standard input ends."""
    command = [sys.executable, "-c", HOLD, str(checkout)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_the_last_holder_stops_the_server(checkout: Path) -> None:
    with start_holder(checkout) as holder:
        with held(checkout) as cluster:
            first = cluster.process()
        assert first is not None
        assert cluster.process() == first, "the other holder still needs it"
        holder.communicate()
    assert holder.returncode == 0
    assert cluster.process() is None


def test_a_killed_holder_is_no_holder(checkout: Path) -> None:
    with start_holder(checkout) as holder:
        holder.kill()
        holder.wait(10)
    cluster = cluster_of(checkout)
    left = cluster.process()
    assert left is not None, "nobody was there to stop it"
    with held(checkout):
        assert cluster.process() == left, "a running server is joined, not started again"
    assert cluster.process() is None


def test_the_server_inherits_no_lock(checkout: Path) -> None:
    with held(checkout) as cluster:
        server = cluster.process()
        assert server is not None
        # A lock that it inherited would outlive every holder.
        opened = [file.path for file in server.open_files()]
    assert [path for path in opened if path.endswith(".lock")] == []


def test_stop_wins_over_a_holder(checkout: Path) -> None:
    with held(checkout) as cluster:
        assert stop(checkout)
        assert cluster.process() is None
        assert not stop(checkout)


def test_remove_leaves_nothing(tmp_path: Path) -> None:
    with held(tmp_path) as cluster:
        server = cluster.process()
        assert server is not None
        assert remove(tmp_path)
        # Its process may wait to be collected, but runs no more.
        assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE
    assert not place_of(tmp_path).exists()
    assert not remove(tmp_path)
    assert not stop(tmp_path)


def test_databases_of_killed_runs_are_dropped_and_others_kept(checkout: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait(10)
    abandoned, used, other = f"test_ledgence_{gone.pid}", f"test_ledgence_{os.getpid()}", "test_ledgence_notes"
    with held(checkout) as cluster:
        for name in (abandoned, used, other):
            cluster.create_database(name)
        assert drop_abandoned(cluster) == [abandoned]
        with psycopg.connect(cluster.url("postgres"), autocommit=True) as connection:
            for name in (used, other):
                connection.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))


@pytest.mark.django_db
def test_this_run_has_a_database_of_its_own() -> None:
    from django.db import connection

    if "/ledgence/" in os.environ["DATABASE_URL"]:
        # Of the run's own process: where the tests are spread over several, each of them adds to the name.
        runner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
        assert str(connection.settings_dict["NAME"]).startswith(f"test_ledgence_{runner}")
    assert connection.settings_dict["NAME"].startswith("test_")


def test_a_started_process_finds_what_the_test_committed(database_url: str) -> None:
    from django.contrib.auth.models import Group

    Group.objects.create(name="seen by another process")
    with psycopg.connect(database_url) as connection:
        names = connection.execute("SELECT name FROM auth_group").fetchall()
    assert names == [("seen by another process",)]
