"""Connections that die under an idle or busy worker, a deaf or dead listener, and hints that are off."""

import re
import time

import pytest
from django.db import connection

from ledgence.models import State
from ledgence_worker.stopping import ExitCode
from tests.faults.site import Site

pytestmark = pytest.mark.process

#: The probe behind the hints comes about once a second; the rest is for a busy machine.
POLL_SECONDS = 5.0


def test_idle_worker_whose_connections_all_died_runs_the_next_task_soon(site: Site) -> None:
    worker = site.worker()
    site.wait_until(lambda: len(site.sessions()) >= 3, "the worker's connections")
    assert site.terminate() >= 3
    began = time.monotonic()
    task = site.submit("echo", "hello")
    assert site.wait_for_end(task) is State.SUCCEEDED
    assert time.monotonic() - began < POLL_SECONDS
    assert site.ends(task) == [(1, "succeeded")]
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.slow
def test_connections_that_die_again_and_again_under_load(site: Site) -> None:
    worker = site.worker(concurrency=2)
    tasks = [site.submit("hold-gil", 0.02) for _ in range(100)]
    rounds = 0
    while site.leases() or any(task.state is State.QUEUED for task in tasks[-1:]):
        rounds += bool(site.terminate())
        site.wait_until(lambda: site.sessions(), "a connection")
    assert rounds >= 3
    for task in tasks:
        assert site.wait_for_end(task) is State.SUCCEEDED
        assert site.ends(task) == [(1, "succeeded")]
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.slow
@pytest.mark.parametrize("health_checks", ["on", "off"])
def test_program_whose_own_connection_dies_gets_a_new_one_with_the_next_attempt(site: Site, health_checks: str) -> None:
    worker = site.worker(LEDGENCE_CHILD_HEALTH_CHECKS=health_checks)
    asked = site.submit("ask-database")
    assert site.wait_for_end(asked) is State.SUCCEEDED
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [asked.result()[0]])
    again = site.submit("ask-database")
    assert site.wait_for_end(again) is State.SUCCEEDED
    assert again.result()[0] != asked.result()[0]
    assert again.result()[1] == asked.result()[1], "the process was replaced, which proves nothing"
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.slow
def test_dead_listener_listens_again(site: Site) -> None:
    worker = site.worker()
    [before] = site.wait_until(lambda: site.sessions("ledgence listener"), "the listener")
    assert site.terminate("ledgence listener") == 1
    task = site.submit("echo")
    assert site.wait_for_end(task) is State.SUCCEEDED
    [after] = site.wait_until(lambda: site.sessions("ledgence listener"), "the listener to be back")
    assert after != before
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.slow
def test_without_hints_work_is_found_by_polling(site: Site) -> None:
    worker = site.worker(ZOO_HINTS="off")
    for _ in range(3):
        began = time.monotonic()
        assert site.wait_for_end(site.submit("echo")) is State.SUCCEEDED
        assert time.monotonic() - began < POLL_SECONDS
    assert not site.sessions("ledgence listener")
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.slow
def test_no_transaction_stays_open_while_a_program_runs(site: Site) -> None:
    worker = site.worker(concurrency=2)
    task = site.submit("wait", site.gate())
    site.wait_for_start(task)
    query = (
        "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name LIKE 'ledgence %%' AND clock_timestamp() - xact_start > interval '1 second'"
    )
    with connection.cursor() as cursor:
        for _ in range(20):
            cursor.execute(query)
            assert cursor.fetchall() == []
            time.sleep(0.1)
    site.open(site.gate())
    assert site.wait_for_end(task) is State.SUCCEEDED
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.slow
def test_log_tells_of_an_outage_once_and_of_nothing_secret(site: Site) -> None:
    worker = site.worker()
    site.wait_until(lambda: site.sessions(), "the worker's connections")
    site.terminate()
    assert site.wait_for_end(site.submit("echo", "a payload that no log may show")) is State.SUCCEEDED
    assert worker.stop() == ExitCode.CLEAN
    assert "a payload" not in worker.output
    assert len(re.findall("Traceback", worker.output)) == 0
