"""SIGTERM in each phase of a worker's life, and a second one that forces."""

import signal

import psycopg
import pytest

from ledgence.models import State, WorkerSession
from ledgence_worker.stopping import ExitCode
from tests.faults.site import Site, short_lease

pytestmark = pytest.mark.process


def test_while_it_starts(site: Site) -> None:
    worker = site.start_worker(LEDGENCE_CHILD_ZOO_IMPORT_GATE=site.gate("never"))
    site.wait_until(worker.children, "the first process")
    assert worker.stop() == ExitCode.CLEAN
    assert not WorkerSession.objects.exists()


@pytest.mark.slow
def test_before_anything_is_started(site: Site) -> None:
    # Python itself is still loading: no handler is there yet, and the signal's own effect is just as clean.
    worker = site.start_worker()
    assert worker.stop() in (ExitCode.CLEAN, -signal.SIGTERM)


def test_while_idle(site: Site) -> None:
    worker = site.worker()
    assert worker.stop() == ExitCode.CLEAN
    assert WorkerSession.objects.get().closed_at is not None


def test_running_program_finishes_within_the_grace(site: Site) -> None:
    worker = site.worker(concurrency=1)
    running, waiting = site.submit("wait", site.gate()), site.submit("echo")
    site.wait_for_start(running)
    worker.send(signal.SIGTERM)
    worker.wait_for_log("worker draining")
    site.open(site.gate())
    assert worker.wait() == ExitCode.CLEAN
    assert site.ends(running) == [(1, "succeeded")]
    assert waiting.state is State.QUEUED and not waiting.attempts


@pytest.mark.parametrize("program", ["wait-first", pytest.param("wait-async", marks=pytest.mark.slow)])
def test_after_the_grace_it_is_given_back_uncharged_and_runs_again_at_once(site: Site, program: str) -> None:
    worker = site.worker("--grace", "0.2")
    task = site.submit(program, site.gate(), max_attempts=1)
    site.wait_for_start(task)
    assert worker.stop() == ExitCode.CLEAN
    assert site.ends(task) == [(1, "interrupted")]
    assert task.state is State.QUEUED
    site.open(site.gate())
    heir = site.worker("--drain")
    assert heir.wait() == ExitCode.CLEAN
    assert site.ends(task) == [(1, "interrupted"), (2, "succeeded")]


@pytest.mark.slow
def test_after_the_grace_a_deaf_program_is_killed_with_its_children_and_given_back(site: Site) -> None:
    worker = site.worker("--grace", "0.2", concurrency=2)
    deaf = site.submit("wait-deaf", site.gate("never"))
    parent = site.submit("wait-with-children", site.gate("never"))
    site.wait_for_start(deaf)
    site.wait_until(lambda: site.is_open(site.gate("never.ready")), "the children")
    assert worker.stop() == ExitCode.CLEAN
    assert site.ends(deaf) == site.ends(parent) == [(1, "interrupted")]


def test_while_it_takes_work_what_it_got_is_given_back_at_once(site: Site, database_url: str) -> None:
    worker = site.worker()
    with psycopg.connect(database_url) as holder:
        # Taking work inserts an attempt, which waits for this lock.
        holder.execute("LOCK TABLE ledgence_attempt IN SHARE MODE")
        task = site.submit("echo")
        site.wait_until(lambda: site.sessions(waiting=True), "the worker's acquisition to wait for the lock")
        worker.send(signal.SIGTERM)
        worker.wait_for_log("worker draining")
    assert worker.wait() == ExitCode.CLEAN
    # Whether the acquisition was still in time or gave up, nothing is left to expire and nothing ran.
    assert task.state is State.QUEUED
    assert site.ends(task) in ([], [(1, "interrupted")])
    assert not site.starts()


def test_while_it_settles_it_stays_until_the_end_is_accepted(site: Site, database_url: str) -> None:
    worker = site.worker()
    task = site.submit("wait", site.gate())
    site.wait_for_start(task)
    with psycopg.connect(database_url) as holder:
        holder.execute("SELECT 1 FROM ledgence_lease FOR UPDATE")
        site.open(site.gate())
        site.wait_until(lambda: site.sessions(waiting=True), "the settlement to wait for the lease")
        worker.send(signal.SIGTERM)
        worker.wait_for_log("worker draining")
        # It gives up after a second, and is sent again.
        site.wait_until(lambda: not site.sessions(waiting=True), "the settlement to give up")
        site.wait_until(lambda: site.sessions(waiting=True), "the settlement to wait again")
        assert worker.is_running
    assert worker.wait() == ExitCode.CLEAN
    assert site.ends(task) == [(1, "succeeded")]
    assert sum(site.starts().values()) == 1


@short_lease
@pytest.mark.slow
def test_twice_forces_and_leaves_the_lease_to_expire(site: Site) -> None:
    worker = site.worker()
    task = site.submit("wait-first", site.gate("never"))
    site.wait_for_start(task)
    worker.send(signal.SIGTERM)
    worker.wait_for_log("worker draining")
    worker.send(signal.SIGTERM)
    assert worker.wait() == ExitCode.FORCED
    heir = site.worker()
    assert site.wait_for_end(task) is State.SUCCEEDED
    assert site.ends(task) in ([(1, "lost"), (2, "succeeded")], [(1, "interrupted"), (2, "succeeded")])
    assert heir.stop() == ExitCode.CLEAN


@pytest.mark.slow
def test_rolling_restarts_lose_nothing(site: Site) -> None:
    tasks = [site.submit("hold-gil", 0.05) for _ in range(40)]
    for _ in range(3):
        worker = site.worker(concurrency=2)
        site.wait_until(site.leases, "the worker to hold leases")
        assert worker.stop() == ExitCode.CLEAN
        assert not site.leases()
    last = site.worker("--drain", concurrency=2)
    assert last.wait() == ExitCode.CLEAN
    for task in tasks:
        assert site.ends(task)[-1][1] == "succeeded"
        assert {outcome for _, outcome in site.ends(task)[:-1]} <= {"interrupted"}
