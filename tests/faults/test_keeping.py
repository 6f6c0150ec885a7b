"""Attempts longer than their lease keep it, whatever their process does, also while the worker drains."""

import signal
import time

import pytest

from ledgence.models import State
from ledgence_worker.stopping import ExitCode
from tests.faults.site import SHORT_LEASE_SECONDS, Site, short_lease

pytestmark = [pytest.mark.process, pytest.mark.slow, short_lease]


def test_computation_that_holds_the_interpreter_for_three_leases_stays_one_attempt(site: Site) -> None:
    worker = site.worker()
    task = site.submit("hold-gil", 3 * SHORT_LEASE_SECONDS)
    began = time.monotonic()
    assert site.wait_for_end(task) is State.SUCCEEDED
    assert time.monotonic() - began >= 3 * SHORT_LEASE_SECONDS
    assert site.ends(task) == [(1, "succeeded")]
    assert worker.stop() == ExitCode.CLEAN


def test_renewals_go_on_while_the_worker_drains(site: Site) -> None:
    draining, idle = site.worker(), None
    task = site.submit("wait", site.gate())
    site.wait_for_start(task)
    draining.send(signal.SIGTERM)
    draining.wait_for_log("worker draining")
    idle = site.worker()
    lease = site.wait_for_lease(task)
    seen = {lease.expires_at}

    def renewals() -> bool:
        seen.add(site.wait_for_lease(task).expires_at)
        return len(seen) > 12

    # Each renewal moves the expiry by about a quarter of the lease: twelve are three leases.
    site.wait_until(renewals, "twelve renewals")
    site.open(site.gate())
    assert draining.wait() == ExitCode.CLEAN
    assert site.wait_for_end(task) is State.SUCCEEDED
    assert site.ends(task) == [(1, "succeeded")]
    assert idle.stop() == ExitCode.CLEAN


def test_old_snapshot_held_open_keeps_nothing_from_running(site: Site, old_snapshot: None) -> None:
    worker = site.worker(concurrency=2)
    tasks = [site.submit("echo", number) for number in range(200)]
    assert all(site.wait_for_end(task) is State.SUCCEEDED for task in tasks)
    assert worker.stop() == ExitCode.CLEAN
