"""A worker that somebody started in a terminal, which goes away."""

import signal

import pytest

from ledgence_worker.stopping import ExitCode
from tests.faults.site import Site

pytestmark = pytest.mark.process


def test_a_hangup_loses_no_attempt(site: Site):
    worker = site.worker(concurrency=2)
    running = site.submit("wait", site.gate(), timeout=None)
    site.wait_for_start(running)
    for _ in range(2):
        worker.send(signal.SIGHUP)
    worker.wait_for_log("worker draining")
    worker.send(signal.SIGHUP)
    site.open(site.gate())
    assert worker.wait() == ExitCode.CLEAN
    assert site.ends(running) == [(1, "succeeded")]
