"""An operator drains real workers, beside the database and over HTTP: they finish what runs, and exit with 0."""

import time
from uuid import uuid4

import pytest

from ledgence.models import State, WorkerSession
from ledgence.operations.actions import Operator
from ledgence.operations.sessions import drain
from ledgence_worker.stopping import ExitCode
from tests.faults.remote_site import RemoteSite
from tests.faults.site import Site

pytestmark = pytest.mark.process

#: Well within the wait for work, which lasts 20 s.
SOON_SECONDS = 8.0


def drain_all(site: Site) -> None:
    sessions = list(WorkerSession.objects.using(site.alias).values_list("pk", flat=True))
    by = Operator(action_id=uuid4(), name="op", reason="the machine is rebooted")
    assert set(drain(sessions, by, using=site.alias).values()) == {"draining"}


def test_an_idle_worker_hears_of_it_soon(site: Site) -> None:
    worker = site.worker()
    # Once it has run something it serves a queue, by which hints find it.
    site.wait_for_end(site.submit("echo"))
    began = time.monotonic()
    drain_all(site)
    assert worker.wait() == ExitCode.CLEAN
    assert time.monotonic() - began < SOON_SECONDS
    assert "reason=asked to drain" in worker.output


def test_what_runs_is_finished_and_nothing_new_is_begun(site: Site) -> None:
    worker = site.worker(concurrency=2)
    running = site.submit("wait", site.gate())
    site.wait_for_start(running)
    drain_all(site)
    waiting = site.submit("echo")
    worker.wait_for_log("worker draining")
    site.open(site.gate())
    assert worker.wait() == ExitCode.CLEAN
    assert site.ends(running) == [(1, "succeeded")]
    assert waiting.state is State.QUEUED and not waiting.attempts


def test_a_remote_worker_hears_of_it_soon(remote: RemoteSite) -> None:
    worker = remote.worker(concurrency=2)
    running = remote.submit("wait", remote.gate())
    remote.wait_for_start(running)
    began = time.monotonic()
    drain_all(remote)
    waiting = remote.submit("echo")
    worker.wait_for_log("worker draining")
    assert time.monotonic() - began < SOON_SECONDS
    remote.open(remote.gate())
    assert worker.wait() == ExitCode.CLEAN
    assert remote.ends(running) == [(1, "succeeded")]
    assert (waiting.state, remote.ends(waiting)) == (State.QUEUED, [])
