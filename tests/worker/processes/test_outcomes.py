"""What becomes of an attempt, program by program."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from ledgence_worker.limits import ERROR_MESSAGE_BYTES, RESULT_BYTES, TRACEBACK_BYTES
from ledgence_worker.protocol import EarlierAttempt, Outcome
from tests.worker.processes.conftest import Keeper, Opener

pytestmark = pytest.mark.process


def test_a_program_succeeds_and_its_process_stays_warm(keeper: Keeper) -> None:
    first, second = keeper.run("pid"), keeper.run("pid")
    assert first.outcome is second.outcome is Outcome.SUCCEEDED
    assert first.result == second.result
    assert first.confirmed
    assert keeper.pool.free == 1


def test_data_come_back_byte_for_value(keeper: Keeper) -> None:
    data = {"nul": "\0", "text": "é😀", "number": 1.5, "null": None, "list": [[], {}]}
    ended = keeper.run("echo", data)
    assert ended.result is not None
    assert json.loads(ended.result) == data


def test_the_program_sees_its_attempt(keeper: Keeper) -> None:
    earlier = EarlierAttempt(number=1, cause="submitted", outcome="lost", finished_at="2026-01-01T00:00:00+00:00")
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    work = keeper.start("facts", None, number=2, cause="retry", earlier=(earlier,), traceparent=trace, seconds=50.0)
    facts: Any = json.loads(keeper.end_of(work).result or "")
    assert facts["attributes"]["id"] == f"{work.task_id}.2"
    assert facts["attributes"]["source"] == "urn:ledgence:acme:default"
    assert facts["data"] is None
    assert (facts["task"], facts["number"], facts["cause"]) == (str(work.task_id), 2, "retry")
    assert facts["earlier"] == [[1, "submitted", "lost", "2026-01-01T00:00:00+00:00"]]
    assert facts["traceparent"] == trace
    assert 40.0 < facts["remaining"] <= 50.0
    assert facts["cancelled"] is False
    assert facts["fencing"] == [str(work.task_id), "2"]


def test_async_programs_run_and_leave_nothing(keeper: Keeper) -> None:
    assert keeper.run("async-echo", {"n": 1}).result == '[{"n":1},1]'
    first, second = keeper.run("async-leaves-task"), keeper.run("async-leaves-task")
    assert first.outcome is Outcome.SUCCEEDED
    assert first.result == second.result


@pytest.mark.parametrize(
    ("failure", "name", "message"),
    [
        ("value", "builtins.ValueError", "plain"),
        ("mute", "tests.worker.processes.zoo.Mute", "<its message could not be made: RuntimeError>"),
        ("two-arguments", "tests.worker.processes.zoo.TwoArguments", ""),
        ("group", "builtins.ExceptionGroup", "many (2 sub-exceptions)"),
        ("recursion", "builtins.RecursionError", "maximum recursion depth exceeded"),
        ("cycle", "builtins.ValueError", "one"),
        ("local", "tests.worker.processes.zoo._raise_local.<locals>.Local", "local"),
        ("surrogate", "builtins.ValueError", "half \\udc80 and nul \\x00"),
    ],
)
def test_an_exception_becomes_plain_text(keeper: Keeper, failure: str, name: str, message: str) -> None:
    ended = keeper.run("raises", failure)
    assert (ended.outcome, ended.result, ended.confirmed) == (Outcome.FAILED, None, True)
    error = ended.report.error
    assert error is not None
    assert error.classes[0] == name
    assert error.classes[-1] == "builtins.BaseException"
    assert error.message == message
    assert "zoo.py" in error.traceback
    pid = keeper.run("pid").result
    assert keeper.run("raises", failure).outcome is Outcome.FAILED
    assert keeper.run("pid").result == pid, "an ordinary exception keeps the process"


def test_a_huge_message_is_cut(keeper: Keeper) -> None:
    error = keeper.run("raises", "huge").report.error
    assert error is not None
    assert len(error.message) == ERROR_MESSAGE_BYTES
    assert len(error.traceback) <= TRACEBACK_BYTES


def test_an_exception_whose_own_code_hangs_is_given_up(keeper: Keeper) -> None:
    error = keeper.run("raises", "hanging").report.error
    assert error is not None
    assert error.message == "The exception could not be described."


@pytest.mark.parametrize(
    ("program", "data", "name"),
    [
        ("raises", "keyboard", "builtins.KeyboardInterrupt"),
        ("raises", "base", "builtins.BaseException"),
        ("sys-exits", None, "builtins.SystemExit"),
    ],
)
def test_a_base_exception_fails_the_attempt_and_replaces_the_process(
    keeper: Keeper, program: str, data: object, name: str
) -> None:
    pid = keeper.run("pid").result
    ended = keeper.run(program, data)
    assert ended.outcome is Outcome.FAILED
    assert ended.report.error is not None
    assert ended.report.error.classes[0] == name
    assert keeper.run("pid").result != pid


@pytest.mark.parametrize("result", ["nan", "large", "deep", "surrogate", "number-key", "object", "repeating"])
def test_a_result_that_is_not_strict_json_fails_the_attempt(keeper: Keeper, result: str) -> None:
    ended = keeper.run("returns", result)
    assert (ended.outcome, ended.result) == (Outcome.FAILED, None)
    assert ended.report.error is not None
    assert ended.report.error.classes[0] == "ledgence_worker.errors.InvalidResult"
    assert keeper.run("echo", 1).result == "1"


@pytest.mark.parametrize(("result", "text"), [("nul", '"a\\u0000b"'), ("none", "null")])
def test_odd_results_that_are_json_are_kept(keeper: Keeper, result: str, text: str) -> None:
    assert keeper.run("returns", result).result == text


def test_the_largest_result_passes(keeper: Keeper) -> None:
    ended = keeper.run("returns", "eight-mebibytes")
    assert ended.result is not None
    assert len(ended.result) == RESULT_BYTES


def test_data_that_are_not_json_fail_the_attempt(keeper: Keeper) -> None:
    for data in ('{"a":1}, "id": "x"', "1}", "NaN", '"\\ud800"', '"\ud800"', ""):
        ended = keeper.run("echo", data=data)
        assert ended.outcome is Outcome.FAILED, data
        assert ended.report.error is not None
        assert ended.report.error.classes[0] == "ledgence_worker.errors.InvalidInput"


@pytest.mark.parametrize(
    ("program", "data", "status"),
    [("exits", 0, 0), ("exits", 3, 3), ("kills-itself", 9, -9), ("kills-itself", 11, -11), ("kills-itself", 6, -6)],
)
def test_a_dead_process_is_a_crash_with_its_status(keeper: Keeper, program: str, data: int, status: int) -> None:
    ended = keeper.run(program, data)
    assert (ended.outcome, ended.confirmed) == (Outcome.CRASHED, True)
    assert ended.report.exit_status == status
    assert keeper.run("echo", 1).result == "1"


def test_a_process_killed_from_outside_is_a_crash(keeper: Keeper, tmp_path: Path) -> None:
    work = keeper.start("sleeps", {"path": str(tmp_path / "running")})
    pid = int(keeper.noted(tmp_path / "running"))
    os.kill(pid, signal.SIGKILL)
    ended = keeper.end_of(work)
    assert (ended.outcome, ended.report.exit_status) == (Outcome.CRASHED, -9)


def test_a_warm_process_killed_from_outside_is_replaced(keeper: Keeper) -> None:
    pid = int(keeper.run("pid").result or "")
    os.kill(pid, signal.SIGKILL)
    keeper.until(lambda: not Path(f"/proc/{pid}").exists(), "its end")
    keeper.until(lambda: keeper.pool.free == 1, "the slot")
    assert keeper.run("echo", 1).result == "1"


def test_a_copy_that_returns_tells_nothing(keeper: Keeper) -> None:
    assert keeper.run("forks-and-returns").result == '"from the original"'


def test_hooks_run_around_each_attempt(open_pool: Opener) -> None:
    keeper = open_pool(bootstrap="tests.worker.processes.zoo:loads")
    for _ in range(2):
        assert keeper.run("echo", 1).report.output == "before\nafter\n"


def test_a_hook_that_fails_afterwards_changes_no_outcome(open_pool: Opener) -> None:
    keeper = open_pool(bootstrap="tests.worker.processes.zoo:loads_with_failing_hook")
    first, second = keeper.run("pid"), keeper.run("pid")
    assert first.outcome is second.outcome is Outcome.SUCCEEDED
    assert "A hook after the attempt failed" in first.report.output
    assert first.result != second.result


def test_the_run_time_is_measured(keeper: Keeper, tmp_path: Path) -> None:
    before = time.monotonic()
    ended = keeper.run("echo", 1)
    assert 0.0 < ended.report.seconds <= time.monotonic() - before
