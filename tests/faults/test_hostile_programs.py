"""Programs that do what they should not: each harms its own attempt at most, and its worker goes on."""

import signal

import psutil
import pytest

from ledgence.models import Attempt, State
from ledgence_worker.errors import InvalidResult
from ledgence_worker.limits import OUTPUT_TAIL_BYTES
from ledgence_worker.programs import class_name
from ledgence_worker.stopping import ExitCode
from tests.faults.site import GONE_SECONDS, LEASE_SECONDS, Site
from tests.faults.waiting import wait_until

pytestmark = pytest.mark.process

MODULE = "tests.faults.zoo.programs"
INVALID = class_name(InvalidResult)

#: What becomes of each program: the outcome of its attempt and, if there is an error, its class.
ENDS = {
    "print-much": ("succeeded", None),
    "close-stdout": ("succeeded", None),
    "close-everything": ("crashed", None),
    "forge": ("crashed", "ledgence_worker.errors.ProtocolError"),
    "exit-now": ("crashed", None),
    "exit": ("failed", "builtins.SystemExit"),
    "raise-unprintable": ("failed", f"{MODULE}.Unprintable"),
    "raise-unpicklable": ("failed", f"{MODULE}.Unpicklable"),
    "raise-text": ("failed", "builtins.ValueError"),
    "return-nan": ("failed", INVALID),
    "return-large": ("failed", INVALID),
    "return-deep": ("failed", INVALID),
    "return-surrogate": ("failed", INVALID),
    "return-object": ("failed", INVALID),
    "return-nul": ("succeeded", None),
    "leave-child": ("succeeded", None),
    "leave-daemon": ("succeeded", None),
    "leave-transaction": ("succeeded", None),
}


def end_of(attempt: Attempt) -> tuple[str | None, str | None]:
    error = (attempt.report or {}).get("error")
    return attempt.outcome, error["classes"][0] if error else None


@pytest.mark.slow
def test_every_hostile_program_ends_as_it_should_and_harms_no_other(site: Site) -> None:
    worker = site.worker(concurrency=4)
    tasks = {name: site.submit(name, max_attempts=1) for name in ENDS}
    innocent = [site.submit("echo", number) for number in range(40)]
    for task in (*tasks.values(), *innocent):
        site.wait_for_end(task)
    attempts = {name: task.attempts[0] for name, task in tasks.items()}
    assert {name: end_of(attempt) for name, attempt in attempts.items()} == ENDS
    assert [task.result() for task in innocent] == list(range(40))
    assert tasks["return-nul"].result() == {"a\0b": ["\0"]}
    assert attempts["exit-now"].report["exit_status"] == 7
    assert attempts["raise-text"].report["error"]["message"] == "\\ud800 and \\x00 and \\udfff"
    assert "cannot be pickled" in attempts["raise-unpicklable"].report["error"]["traceback"]
    assert "the last line" in attempts["close-stdout"].report["output"]
    output = attempts["print-much"].report["output"]
    assert output.endswith("w" * 1000) and len(output.encode()) <= OUTPUT_TAIL_BYTES
    assert len(worker.output) < 2_000_000
    left = {tasks[name].result() for name in ("leave-child", "leave-daemon")}
    wait_until(lambda: left.isdisjoint(psutil.pids()), "what programs left behind to be gone", seconds=GONE_SECONDS)
    assert worker.stop() == ExitCode.CLEAN


def test_hostile_values_come_back_as_they_were_submitted(site: Site) -> None:
    values = ["\0", {"\0": "\0"}, 1.0, -0.0, 1e300, 2**63, "\u202e", "é" * 1000, [[[[]]]], {"b": 1, "a": 2}, None]
    worker = site.worker()
    tasks = [site.submit("echo", value) for value in values]
    for task, value in zip(tasks, values, strict=True):
        assert site.wait_for_end(task) is State.SUCCEEDED
        assert repr(task.result()) == repr(value)
    assert worker.stop() == ExitCode.CLEAN


def test_poison_ends_after_its_attempts_while_others_go_on(site: Site) -> None:
    worker = site.worker(concurrency=2)
    poison = site.submit("die", max_attempts=3)
    others = [site.submit("echo", number) for number in range(20)]
    assert site.wait_for_end(poison) is State.FAILED
    assert site.ends(poison) == [(1, "crashed"), (2, "crashed"), (3, "crashed")]
    assert {attempt.report["exit_status"] for attempt in poison.attempts} == {-signal.SIGKILL}
    assert all(site.wait_for_end(task) is State.SUCCEEDED for task in others)
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.slow
@pytest.mark.parametrize("lease_seconds", [LEASE_SECONDS, 6.0])
def test_program_deaf_to_sigterm_is_killed_after_its_time_out(site: Site) -> None:
    worker = site.worker()
    task = site.submit("wait-deaf", site.gate("never"), timeout=1.0, max_attempts=1)
    process = site.wait_for_start(task)
    assert site.wait_for_end(task) is State.FAILED
    assert site.ends(task) == [(1, "timed_out")]
    assert task.attempts[0].report["exit_status"] == -signal.SIGKILL
    assert not psutil.pid_exists(process)
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.slow
def test_paused_process_times_out_while_its_worker_goes_on(site: Site) -> None:
    worker = site.worker(concurrency=2)
    task = site.submit("wait", site.gate("never"), timeout=1.0, max_attempts=1)
    site.signal(site.wait_for_start(task), signal.SIGSTOP)
    other = site.submit("echo", 1)
    assert site.wait_for_end(other) is State.SUCCEEDED
    assert site.wait_for_end(task) is State.FAILED
    assert site.ends(task) == [(1, "timed_out")]
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.slow
def test_time_out_ends_children_and_daemons_too(site: Site) -> None:
    worker = site.worker()
    task = site.submit("wait-with-children", site.gate("never"), timeout=2.0, max_attempts=1)
    site.wait_for_start(task)
    assert site.wait_for_end(task) is State.FAILED
    assert site.ends(task) == [(1, "timed_out")]
    assert site.is_open(site.gate("never.ready"))
    # Only the launcher is left: the process was replaced by none, since nothing is to be run.
    wait_until(lambda: len(worker.family()) == 1, "the program's children to be gone", seconds=GONE_SECONDS)
    assert worker.stop() == ExitCode.CLEAN
