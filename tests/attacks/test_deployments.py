"""Deployments under a running worker: what its next processes load is not what the first one loaded."""

import resource
from typing import Any

import psutil
import pytest

from ledgence.models import Attempt
from tests.attacks.beasts import programs
from tests.faults.site import Site

pytestmark = [pytest.mark.process, pytest.mark.slow]

# Any: it is unpacked beside an argument of another type.
SETTINGS: dict[str, Any] = {"DJANGO_SETTINGS_MODULE": "tests.attacks.settings"}
COUNT = 4


@pytest.mark.parametrize("variable", [programs.BROKEN, programs.DEPLOYED])
def test_programs_that_never_started_are_not_charged(site: Site, variable: str):
    worker = site.worker("--max-tasks-per-child", "1", concurrency=2, **SETTINGS, **{variable: site.gate("deployed")})
    site.wait_for_end(site.submit("echo"))
    site.open(site.gate("deployed"))
    tasks = [site.submit("echo", number, max_attempts=1) for number in range(COUNT)]
    worker.wait_for_log("process not started pause_seconds=2.0")
    site.close(site.gate("deployed"))
    for task in tasks:
        assert site.wait_for_end(task) == "succeeded"
        assert {a.outcome for a in task.attempts} <= {Attempt.Outcome.INTERRUPTED, Attempt.Outcome.SUCCEEDED}
    assert worker.stop() == 0


def test_what_kept_a_process_from_starting_stands_on_the_attempt(site: Site):
    broken: dict[str, Any] = {programs.BROKEN: site.gate("deployed")}
    worker = site.worker("--max-tasks-per-child", "1", **SETTINGS, **broken)
    site.wait_for_end(site.submit("echo"))
    site.open(site.gate("deployed"))
    task = site.submit("echo")
    site.wait_until(lambda: len(task.attempts) > 1, "a second attempt")
    first = task.attempts[0]
    assert (first.outcome, first.consequence) == ("interrupted", "retry")
    assert first.report["error"]["message"] == "the deployment is broken"
    site.close(site.gate("deployed"))
    assert site.wait_for_end(task) == "succeeded"
    assert worker.stop() == 0


def test_a_worker_without_descriptors_charges_nobody(site: Site):
    worker = site.worker("--max-tasks-per-child", "1", concurrency=4, **SETTINGS)
    site.wait_for_end(site.submit("echo"))
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (psutil.Process(worker.pid).num_fds(), 1024))
    tasks = [site.submit("echo", number, max_attempts=1) for number in range(COUNT)]
    worker.wait_for_log("Too many open files")
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (1024, 1024))
    assert [site.wait_for_end(task) for task in tasks] == ["succeeded"] * COUNT
    assert worker.stop() == 0
