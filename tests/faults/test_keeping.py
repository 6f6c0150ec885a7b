"""Attempts longer than their lease keep it, whatever their process does, also while the worker drains."""

import signal
import time

import pytest

from ledgence.models import State
from ledgence_worker.stopping import ExitCode
from tests.faults.site import SHORT_LEASE_SECONDS, Site, short_lease

pytestmark = [pytest.mark.process, pytest.mark.slow, short_lease]


def test_computation_that_holds_the_interpreter_stays_one_attempt_while_its_worker_drains(site: Site) -> None:
    draining = site.worker()
    task = site.submit("hold-gil", 3 * SHORT_LEASE_SECONDS)
    site.wait_for_start(task)
    began = time.monotonic()
    draining.send(signal.SIGTERM)
    # Somebody else would run it again as soon as its lease had expired.
    idle = site.worker()
    assert draining.wait() == ExitCode.CLEAN
    assert time.monotonic() - began > 2.5 * SHORT_LEASE_SECONDS
    assert site.wait_for_end(task) is State.SUCCEEDED
    assert site.ends(task) == [(1, "succeeded")]
    assert idle.stop() == ExitCode.CLEAN


def test_old_snapshot_held_open_keeps_nothing_from_running(site: Site, old_snapshot: None) -> None:
    worker = site.worker(concurrency=2)
    tasks = [site.submit("echo", number) for number in range(200)]
    assert all(site.wait_for_end(task) is State.SUCCEEDED for task in tasks)
    assert worker.stop() == ExitCode.CLEAN
