"""The worker's options with real processes: --drain, --once, recycling, queues, the health page."""

import json
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from ledgence.models import State
from ledgence_project.embedded.environment import CHECKOUT
from ledgence_worker.stopping import ExitCode
from tests.faults.site import Site

pytestmark = pytest.mark.process


def test_drain_ends_clean_when_nothing_is_left(site: Site) -> None:
    tasks = [site.submit("echo", number) for number in range(100)]
    worker = site.worker("--drain", concurrency=2)
    assert worker.wait() == ExitCode.CLEAN
    assert [task.result() for task in tasks] == list(range(100))


def test_worker_imports_neither_addresses_nor_programs_of_the_project(site: Site) -> None:
    task = site.submit("echo", 1)
    worker = site.worker("--drain", ZOO_ADDRESSES="tests.faults.zoo.addresses")
    assert worker.wait() == ExitCode.CLEAN
    assert task.result() == 1


@pytest.mark.slow
def test_drain_waits_for_a_retry_that_follows_at_once(site: Site) -> None:
    task = site.submit("die", max_attempts=2)
    worker = site.worker("--drain")
    assert worker.wait() == ExitCode.CLEAN
    assert site.ends(task) == [(1, "crashed"), (2, "crashed")]


@pytest.mark.slow
def test_processes_are_reused_and_replaced_after_their_number_of_attempts(site: Site) -> None:
    tasks = [site.submit("process-id") for _ in range(6)]
    worker = site.worker("--drain", "--max-tasks-per-child", "3")
    assert worker.wait() == ExitCode.CLEAN
    ids = [task.result() for task in tasks]
    assert ids[0] == ids[1] == ids[2] != ids[3] == ids[4] == ids[5]


@pytest.mark.slow
def test_processes_above_the_memory_limit_are_replaced(site: Site) -> None:
    tasks = [site.submit("process-id") for _ in range(3)]
    # No Python process is that small.
    worker = site.worker("--drain", "--max-rss", "1")
    assert worker.wait() == ExitCode.CLEAN
    assert len({task.result() for task in tasks}) == 3


@pytest.mark.slow
def test_idle_processes_end_but_for_one(site: Site) -> None:
    worker = site.worker("--idle-timeout", "0.5", concurrency=2)
    tasks = [site.submit("wait", site.gate()) for _ in range(2)]
    for task in tasks:
        site.wait_for_start(task)
    assert len(worker.children()) == 2
    site.open(site.gate())
    site.wait_until(lambda: len(worker.children()) == 1, "one process to be left")
    assert site.wait_for_end(site.submit("echo")) is State.SUCCEEDED
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.slow
def test_queue_that_is_not_served_keeps_its_work(site: Site) -> None:
    kept, run = site.submit("echo", queue="elsewhere"), site.submit("echo")
    worker = site.worker("--drain")
    assert worker.wait() == ExitCode.CLEAN
    assert (kept.state, run.state) == (State.QUEUED, State.SUCCEEDED)


@pytest.mark.slow
def test_later_attempt_knows_the_earlier_ones(site: Site) -> None:
    worker = site.worker("--grace", "0.1")
    task = site.submit("earlier-after-wait", site.gate("never"))
    site.wait_for_start(task)
    assert worker.stop() == ExitCode.CLEAN
    heir = site.worker("--drain")
    assert heir.wait() == ExitCode.CLEAN
    assert task.result() == ["interrupted", [[1, "interrupted"]]]


@pytest.mark.slow
def test_health_page_answers_until_the_end(site: Site) -> None:
    worker = site.worker("--health-port", "0")
    port = worker.wait_for_log(r"health pages served port=(\d+)")[1]

    def status(page: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/{page}", timeout=10) as answer:  # noqa: S310
                return answer.status, json.load(answer)["status"]
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)["status"]

    assert status("live") == status("ready") == (200, "ok")
    task = site.submit("wait", site.gate())
    site.wait_for_start(task)
    worker.stop_soon()
    site.wait_until(lambda: status("ready") == (503, "failing"), "the page to say that it takes no work")
    assert status("live") == (200, "ok")
    site.open(site.gate())
    assert worker.wait() == ExitCode.CLEAN


def once(site: Site, task: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CHECKOUT / "manage.py"), "ledgence_worker", "--once", task],
        env=site.environment(),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_once_runs_one_task_in_the_foreground(site: Site) -> None:
    task, other = site.submit("echo", {"a": 1}), site.submit("echo")
    done = once(site, str(task.id))
    assert (done.returncode, "outcome=succeeded" in done.stdout) == (0, True), done.stderr
    assert task.result() == {"a": 1}
    assert other.state is State.QUEUED
    again = once(site, str(task.id))
    assert again.returncode == 1
    assert again.stderr.startswith("CommandError:") and "is not queued" in again.stderr
    assert once(site, "no-id").stderr == "CommandError: Task id 'no-id' is not a UUID.\n"


@pytest.mark.slow
def test_once_shows_the_exception_and_settles_it(site: Site) -> None:
    task = site.submit("raise-unpicklable")
    done = once(site, str(task.id))
    assert done.returncode == 1
    assert "cannot be pickled" in done.stderr
    assert task.state is State.FAILED
    assert site.ends(task) == [(1, "failed")]
