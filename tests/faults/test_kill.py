"""SIGKILL of the worker, of a managed process while it runs or starts, and of the launcher between them."""

import signal

import pytest

from ledgence.models import State
from ledgence_worker.stopping import ExitCode
from tests.faults.site import GONE_SECONDS, Site, short_lease
from tests.faults.waiting import wait_until
from tests.faults.worker_process import WorkerProcess

pytestmark = pytest.mark.process


def wait_until_alone(worker: WorkerProcess) -> None:
    wait_until(lambda: not worker.family(), f"nothing to be left of worker {worker.pid}", seconds=GONE_SECONDS)


@pytest.mark.slow
@short_lease
def test_killed_worker_takes_everything_along_and_another_runs_its_work_again(site: Site) -> None:
    victim = site.worker(concurrency=2)
    tasks = [site.submit("wait-first", site.gate("never")), site.submit("wait-with-children", site.gate("never"))]
    for task in tasks:
        site.wait_for_start(task)
    site.wait_until(lambda: site.is_open(site.gate("never.ready")), "the program to have started its children")
    victim.kill()
    wait_until_alone(victim)
    heir = site.worker(concurrency=2)
    for task in tasks:
        assert site.wait_for_end(task) is State.SUCCEEDED
        assert site.ends(task) == [(1, "lost"), (2, "succeeded")]
        assert task.result() == 2
    assert heir.stop() == ExitCode.CLEAN


@pytest.mark.slow
@short_lease
def test_worker_killed_again_and_again_loses_nothing(site: Site) -> None:
    tasks = [site.submit("hold-gil", 0.05, max_attempts=100) for _ in range(30)]
    for _ in range(3):
        victim = site.worker(concurrency=4)
        site.wait_until(site.leases, "the worker to hold leases")
        victim.kill()
        wait_until_alone(victim)
    last = site.worker("--drain", concurrency=4)
    assert last.wait() == ExitCode.CLEAN
    for task in tasks:
        *earlier, end = site.ends(task)
        assert end[1] == "succeeded"
        assert {outcome for _, outcome in earlier} <= {"lost"}


def test_killed_process_is_a_crash_of_its_attempt_alone(site: Site) -> None:
    worker = site.worker(concurrency=2)
    killed, spared = site.submit("wait-first", site.gate("never")), site.submit("wait", site.gate())
    process = site.wait_for_start(killed)
    site.wait_for_start(spared)
    site.signal(process, signal.SIGKILL)
    assert site.wait_for_end(killed) is State.SUCCEEDED
    assert site.ends(killed) == [(1, "crashed"), (2, "succeeded")]
    assert killed.attempts[0].report["exit_status"] == -signal.SIGKILL
    site.open(site.gate())
    assert site.wait_for_end(spared) is State.SUCCEEDED
    assert site.ends(spared) == [(1, "succeeded")]
    assert worker.stop() == ExitCode.CLEAN


def test_attempt_of_a_process_killed_while_it_starts_is_given_back(site: Site) -> None:
    site.open(site.gate("import"))
    worker = site.worker(concurrency=2, LEDGENCE_CHILD_ZOO_IMPORT_GATE=site.gate("import"))
    first = site.submit("wait", site.gate())
    site.wait_for_start(first)
    site.close(site.gate("import"))
    second = site.submit("echo", "hello")
    site.wait_for_lease(second)
    starting = max(
        site.wait_until(lambda: (found := worker.children())[1:] and found, "a second process"),
        key=lambda process: process.create_time(),
    )
    starting.kill()
    site.open(site.gate("import"))
    assert site.wait_for_end(second) is State.SUCCEEDED
    assert site.ends(second) == [(1, "interrupted"), (2, "succeeded")]
    assert site.starts()[f"{second.id}.1"] == 0
    site.open(site.gate())
    assert site.wait_for_end(first) is State.SUCCEEDED
    assert worker.stop() == ExitCode.CLEAN


def test_first_process_killed_while_it_starts_ends_the_worker_with_the_reason(site: Site) -> None:
    worker = site.start_worker(LEDGENCE_CHILD_ZOO_IMPORT_GATE=site.gate("never"))
    [starting] = site.wait_until(worker.children, "the first process")
    starting.kill()
    assert worker.wait() == ExitCode.CONFIGURATION
    assert "exit status -9" in worker.output


def test_killed_launcher_ends_the_worker_and_everything_below_it(site: Site) -> None:
    worker = site.worker(concurrency=2)
    killer = site.submit("kill-launcher", site.gate("never"))
    assert worker.wait() == ExitCode.FAILED
    wait_until_alone(worker)
    assert "launcher lost" in worker.output
    heir = site.worker()
    assert site.wait_for_end(killer) is State.SUCCEEDED
    first, *between, last = site.ends(killer)
    assert (first, last[1]) == ((1, "crashed"), "succeeded")
    # The commit that told the crash may have granted the retry to the worker that was about to end.
    assert {outcome for _, outcome in between} <= {"interrupted"}
    assert heir.stop() == ExitCode.CLEAN
