"""SIGSTOP of the worker past its lease, then SIGCONT: it comes back too late for everything.

A stopped worker stops nobody. Its programs run on until it is continued, beside the attempt that replaced theirs: no
database can prevent that. What is promised is that nothing they report changes anything any more: it is kept as late
evidence on the attempt that was lost, and the program is stopped as soon as the worker can.
"""

import signal

import pytest

from ledgence.models import State
from ledgence_worker.stopping import ExitCode
from tests.faults.site import Site, short_lease

pytestmark = [pytest.mark.process, pytest.mark.slow, short_lease]


def test_result_that_comes_after_the_lease_is_refused_and_kept(site: Site) -> None:
    paused = site.worker()
    task = site.submit("wait", site.gate())
    process = site.wait_for_start(task)
    paused.send(signal.SIGSTOP)
    site.open(site.gate())
    heir = site.worker()
    assert site.wait_for_end(task) is State.SUCCEEDED
    assert site.ends(task) == [(1, "lost"), (2, "succeeded")]
    assert task.result() == 2
    assert process in [child.pid for child in paused.children()]
    paused.send(signal.SIGCONT)
    site.wait_until(lambda: task.attempts[0].late_outcome, "the late report")
    late, _ = task.attempts
    assert (late.outcome, late.late_outcome, late.late_result) == ("lost", "succeeded", 1)
    assert task.result() == 2
    # It is none the worse for it: the next task runs, on either of the two.
    assert heir.stop() == ExitCode.CLEAN
    following = site.submit("echo", 1)
    assert site.wait_for_end(following) is State.SUCCEEDED
    assert paused.stop() == ExitCode.CLEAN


def test_program_that_still_runs_is_stopped_as_soon_as_the_worker_can(site: Site) -> None:
    paused = site.worker()
    task = site.submit("wait-first", site.gate("never"))
    site.wait_for_start(task)
    paused.send(signal.SIGSTOP)
    heir = site.worker()
    assert site.wait_for_end(task) is State.SUCCEEDED
    paused.send(signal.SIGCONT)
    site.wait_until(lambda: task.attempts[0].late_outcome, "the late report")
    assert task.attempts[0].late_outcome == "lost"
    assert site.ends(task) == [(1, "lost"), (2, "succeeded")]
    assert "reason=authority_lost" in paused.output
    assert paused.stop() == ExitCode.CLEAN
    assert heir.stop() == ExitCode.CLEAN
