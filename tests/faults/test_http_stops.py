"""Stops and cancellations that reach a worker over HTTP, also while its replies are lost."""

import signal
import time

import pytest

from ledgence.models import Attempt, State
from ledgence_worker.stopping import ExitCode
from tests.faults.http_proxy import EVERY_FAULT, Fault, HttpProxy
from tests.faults.remote_site import RemoteSite

pytestmark = [pytest.mark.process, pytest.mark.slow]

LEASE = 6.0
#: What a stop may take: a second for the answer, and one for processes to end on a busy machine. A wait lasts 20 s.
STOP_SECONDS = 2.0
LATE = (Fault.LATE_REPLY, Fault.LATE_REQUEST)


@pytest.fixture(scope="module")
def server_environment() -> dict[str, str]:
    return {"LEDGENCE_LEASE_SECONDS": str(LEASE)}


@pytest.fixture
def lease_seconds() -> float:
    return LEASE


def test_a_drain_ends_the_wait_at_once_and_takes_no_work(proxied: RemoteSite, http_proxy: HttpProxy) -> None:
    worker = proxied.worker()
    proxied.wait_until(lambda: http_proxy.seen["acquire"], "a request for work")
    began = time.monotonic()
    worker.stop_soon()
    worker.wait_for_log("worker draining")
    task = proxied.submit("echo")
    assert worker.wait() == ExitCode.CLEAN
    assert time.monotonic() - began < STOP_SECONDS
    assert (task.state, proxied.ends(task)) == (State.QUEUED, [])


@pytest.mark.parametrize("fault", [fault for fault in EVERY_FAULT if fault not in LATE])
def test_work_whose_reply_is_lost_while_the_worker_is_stopped_is_given_back(
    proxied: RemoteSite, http_proxy: HttpProxy, fault: Fault
) -> None:
    # The wait itself, and what is asked in its place once the worker drains.
    http_proxy.inflict("acquire", fault, fault)
    worker = proxied.worker(concurrency=4)
    proxied.wait_until(lambda: http_proxy.seen["acquire"], "a request for work")
    tasks = [proxied.submit("echo", number) for number in range(4)]
    worker.stop_soon()
    assert worker.wait() == ExitCode.CLEAN
    assert not Attempt.objects.filter(outcome=None).exists()
    heir = proxied.worker("--drain")
    assert heir.wait() == ExitCode.CLEAN
    assert all(task.state is State.SUCCEEDED for task in tasks)
    assert {outcome for task in tasks for _, outcome in proxied.ends(task)} <= {"succeeded", "interrupted"}


@pytest.mark.parametrize("kind", ["plain", "django"])
@pytest.mark.parametrize("program", ["wait", "wait-deaf"])
def test_a_cancellation_is_heard_with_the_next_renewal_and_ends_in_time(
    remote: RemoteSite, kind: str, program: str
) -> None:
    # The lease of a worker with Django is the server's as well, whatever its own settings say.
    worker = remote.start_worker() if kind == "plain" else remote.start_django_worker(LEDGENCE_LEASE_SECONDS="60")
    worker.wait_until_started()
    task = remote.submit(program, remote.gate("never"))
    process = remote.wait_for_start(task)
    began = time.monotonic()
    task.cancel()
    assert remote.wait_for_end(task) is State.CANCELLED
    # A quarter of the lease until it is told, a sixth until a deaf program is killed.
    assert time.monotonic() - began < LEASE / 2
    assert remote.ends(task) == [(1, "cancelled")]
    remote.wait_until(lambda: process not in [child.pid for child in worker.children()], "its process to be gone")
    assert remote.wait_for_end(remote.submit("echo")) is State.SUCCEEDED
    assert worker.stop() == ExitCode.CLEAN


def test_twice_forces_and_another_runs_what_was_left(remote: RemoteSite) -> None:
    housekeeping = remote.start_housekeeping()
    worker = remote.worker()
    task = remote.submit("wait", remote.gate())
    remote.wait_for_start(task)
    worker.stop_soon()
    worker.wait_for_log("worker draining")
    worker.send(signal.SIGTERM)
    assert worker.wait() == ExitCode.FORCED
    remote.open(remote.gate())
    heir = remote.worker()
    assert remote.wait_for_end(task) is State.SUCCEEDED
    assert remote.ends(task) == [(1, "lost"), (2, "succeeded")]
    assert [one.stop() for one in (heir, housekeeping)] == [ExitCode.CLEAN] * 2
