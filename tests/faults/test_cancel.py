"""Cancelling through a real worker: a queued task, a running one, one that is deaf to it, and many at once."""

import signal
import time

import pytest

from ledgence.models import State
from ledgence.operations.cancel import CancelStatus, cancel
from ledgence_worker.stopping import ExitCode
from tests.faults.site import Site

pytestmark = pytest.mark.process

#: A regular renewal comes every five seconds here: what takes less was told by the hint.
HINTED_SECONDS = 3.0


def test_queued_task_never_runs(site: Site) -> None:
    worker = site.worker()
    running, queued = site.submit("wait", site.gate()), site.submit("echo")
    site.wait_for_start(running)
    assert queued.cancel() is CancelStatus.CANCELLED
    site.open(site.gate())
    assert site.wait_for_end(running) is State.SUCCEEDED
    assert queued.state is State.CANCELLED
    assert site.ends(queued) == [(1, "cancelled")]
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.parametrize("program", ["wait", pytest.param("wait-async", marks=pytest.mark.slow)])
def test_running_program_hears_of_it_long_before_the_next_renewal(site: Site, program: str) -> None:
    worker = site.worker()
    task = site.submit(program, site.gate())
    site.wait_for_start(task)
    began = time.monotonic()
    assert task.cancel() is CancelStatus.REQUESTED
    assert site.wait_for_end(task) is State.CANCELLED
    assert time.monotonic() - began < HINTED_SECONDS
    assert site.ends(task) == [(1, "cancelled")]
    assert site.is_open(site.gate("gate.cancelled")) is (program == "wait-async")
    # The worker goes on.
    assert site.wait_for_end(site.submit("echo")) is State.SUCCEEDED
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.slow
def test_without_hints_the_next_renewal_tells_it(site: Site) -> None:
    worker = site.worker(ZOO_HINTS="off")
    task = site.submit("wait", site.gate("never"))
    site.wait_for_start(task)
    assert task.cancel() is CancelStatus.REQUESTED
    assert site.wait_for_end(task) is State.CANCELLED
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.slow
def test_program_deaf_to_sigterm_is_killed(site: Site) -> None:
    worker = site.worker()
    task = site.submit("wait-deaf", site.gate("never"))
    site.wait_for_start(task)
    assert task.cancel() is CancelStatus.REQUESTED
    assert site.wait_for_end(task) is State.CANCELLED
    assert site.ends(task) == [(1, "cancelled")]
    assert task.attempts[0].report["exit_status"] == -signal.SIGKILL
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.slow
def test_success_that_comes_after_the_request_is_kept_and_changes_nothing(site: Site) -> None:
    worker = site.worker(ZOO_HINTS="off")
    task = site.submit("wait", site.gate())
    site.wait_for_start(task)
    assert task.cancel() is CancelStatus.REQUESTED
    site.open(site.gate())
    assert site.wait_for_end(task) is State.CANCELLED
    [attempt] = task.attempts
    # Whether the program was quicker than the next renewal is a race; both end the task cancelled.
    assert (attempt.outcome, attempt.result) in (("succeeded", 1), ("cancelled", None))
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.slow
def test_everything_cancelled_at_once(site: Site) -> None:
    worker = site.worker(concurrency=4)
    tasks = [site.submit("wait", site.gate("never")) for _ in range(50)]
    for task in tasks[:4]:
        site.wait_for_start(task)
    answers = cancel([task.id for task in tasks], using=site.alias)
    assert sorted(answers.values()) == ["cancelled"] * 46 + ["requested"] * 4
    assert all(site.wait_for_end(task) is State.CANCELLED for task in tasks)
    assert sum(site.starts().values()) == 4
    assert worker.stop() == ExitCode.CLEAN
