"""A database that crashes and comes back: under load, while a program ends, before a worker starts, while one stops."""

import signal
import time
from collections.abc import Iterator

import pytest

from ledgence.models import State
from ledgence_worker.stopping import CLOSING_SECONDS, ExitCode
from tests.faults.site import SHORT_LEASE_SECONDS, Site, short_lease
from tests.faults.waiting import wait_until
from tests.servers import Server

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(autouse=True)
def running(server: Server) -> Iterator[None]:
    """Leave the server running, whatever a test has done to it."""
    yield
    server.start()


def restart(server: Server, site: Site) -> None:
    server.crash()
    server.start()
    site.reconnect()


def test_crashes_under_load_cost_time_and_nothing_else(own_site: Site, server: Server) -> None:
    tasks = [own_site.submit("hold-gil", 0.05) for _ in range(80)]
    worker = own_site.worker(concurrency=4)
    for progress in (10, 40):
        own_site.wait_for_starts(progress)
        restart(server, own_site)
    for task in tasks:
        assert own_site.wait_for_end(task) is State.SUCCEEDED
        # The leases are longer than the outages, so that no attempt had to be given up.
        assert own_site.ends(task) == [(1, "succeeded")]
    assert worker.stop() == ExitCode.CLEAN


def test_end_during_a_short_outage_is_told_afterwards(own_site: Site, server: Server) -> None:
    worker = own_site.worker()
    task = own_site.submit("wait", own_site.gate())
    own_site.wait_for_start(task)
    server.crash()
    own_site.open(own_site.gate())
    worker.wait_for_log(r"task service not available command=(settle|acquire)")
    server.start()
    own_site.reconnect()
    assert own_site.wait_for_end(task) is State.SUCCEEDED
    assert own_site.ends(task) == [(1, "succeeded")]
    # The slot was occupied all the while, and is free now.
    assert own_site.wait_for_end(own_site.submit("echo")) is State.SUCCEEDED
    assert worker.stop() == ExitCode.CLEAN


@short_lease
def test_end_during_an_outage_longer_than_the_lease_is_refused_and_kept(own_site: Site, server: Server) -> None:
    worker = own_site.worker()
    task = own_site.submit("wait", own_site.gate())
    own_site.wait_for_start(task)
    expires_at = time.monotonic() + SHORT_LEASE_SECONDS
    server.crash()
    own_site.open(own_site.gate())
    worker.wait_for_log("task service not available")
    wait_until(lambda: time.monotonic() > expires_at, "the lease to be over")
    server.start()
    own_site.reconnect()
    assert own_site.wait_for_end(task) is State.SUCCEEDED
    first, second = task.attempts
    assert (first.outcome, first.late_outcome, first.late_result) == ("lost", "succeeded", 1)
    assert (second.cause, second.outcome) == ("lost", "succeeded")
    assert worker.stop() == ExitCode.CLEAN


@short_lease
def test_program_that_cannot_be_kept_is_stopped_in_time(own_site: Site, server: Server) -> None:
    worker = own_site.worker()
    task = own_site.submit("wait-first", own_site.gate("never"))
    process = own_site.wait_for_start(task)
    server.crash()
    # The process is gone before anybody else could be given the work, by this machine's own clock.
    began = time.monotonic()
    wait_until(lambda: process not in [child.pid for child in worker.children()], "the program's process to be gone")
    assert time.monotonic() - began < SHORT_LEASE_SECONDS
    server.start()
    own_site.reconnect()
    assert own_site.wait_for_end(task) is State.SUCCEEDED
    assert own_site.ends(task) == [(1, "lost"), (2, "succeeded")]
    assert worker.stop() == ExitCode.CLEAN


def test_worker_that_starts_meanwhile_waits_for_the_database(own_site: Site, server: Server) -> None:
    task = own_site.submit("echo")
    server.crash()
    worker = own_site.start_worker()
    worker.wait_for_log("task service not available command=open_session")
    server.start()
    own_site.reconnect()
    assert own_site.wait_for_end(task) is State.SUCCEEDED
    assert worker.stop() == ExitCode.CLEAN


def test_worker_can_be_stopped_while_it_waits_for_the_database(own_site: Site, server: Server) -> None:
    server.crash()
    worker = own_site.start_worker()
    worker.wait_for_log("task service not available command=open_session")
    assert worker.stop() == ExitCode.CLEAN
    server.start()
    own_site.reconnect()


@short_lease
def test_stop_during_an_outage_ends_within_its_bound(own_site: Site, server: Server) -> None:
    worker = own_site.worker("--grace", "1")
    task = own_site.submit("wait-deaf", own_site.gate("never"))
    own_site.wait_for_start(task)
    server.crash()
    began = time.monotonic()
    worker.send(signal.SIGTERM)
    # What could not be told is left to expire, and the exit code says so.
    assert worker.wait() == ExitCode.FORCED
    assert time.monotonic() - began < 1 + CLOSING_SECONDS + 10
    server.start()
    own_site.reconnect()
    own_site.open(own_site.gate("never"))
    heir = own_site.worker()
    assert own_site.wait_for_end(task) is State.SUCCEEDED
    assert own_site.ends(task) == [(1, "lost"), (2, "succeeded")]
    assert heir.stop() == ExitCode.CLEAN


@short_lease
def test_server_process_that_hangs_costs_the_attempt_and_not_the_worker(own_site: Site, server: Server) -> None:
    worker = own_site.worker()
    task = own_site.submit("wait-first", own_site.gate("never"), max_attempts=100)
    process = own_site.wait_for_start(task)
    [hung] = own_site.wait_until(lambda: own_site.sessions("ledgence renew"), "a renewal")
    own_site.signal(hung, signal.SIGSTOP)
    try:
        wait_until(lambda: process not in [child.pid for child in worker.children()], "the program to be stopped")
    finally:
        own_site.signal(hung, signal.SIGCONT)
    assert own_site.wait_for_end(task) is State.SUCCEEDED
    assert own_site.ends(task)[0] == (1, "lost")
    assert worker.stop() == ExitCode.CLEAN
