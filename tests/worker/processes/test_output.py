"""What programs print: attributed, bounded, and never in the way of anybody."""

import logging
import time

import pytest

from ledgence_worker.limits import OUTPUT_TAIL_BYTES
from ledgence_worker.output import LINE_BYTES, LINES_PER_ATTEMPT
from ledgence_worker.pool import StopReason
from ledgence_worker.protocol import Outcome
from tests.worker.processes.conftest import Keeper, Opener

pytestmark = pytest.mark.process

TEN_MEBIBYTES = 10 * 1024 * 1024


def test_output_is_kept_and_logged_with_its_attempt(keeper: Keeper, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ledgence_worker.output"):
        work = keeper.start("prints-politely")
        ended = keeper.end_of(work)
        keeper.run("echo", 1)
    lines = ["from print", "from stderr", "half \\ud800 pair, no end and from printf"]
    assert ended.report.output.splitlines() == lines
    task = work.task_id
    assert [record.getMessage() for record in caplog.records] == [
        f"task={task} attempt=1 line={line}" for line in lines
    ]


def test_output_belongs_to_the_attempt_that_printed_it(keeper: Keeper) -> None:
    assert keeper.run("prints", {"times": 1, "text": "first\n"}).report.output == "first\n"
    assert keeper.run("echo", 1).report.output == ""
    assert keeper.run("prints", {"times": 1, "text": "second\n", "descriptor": 2}).report.output == "second\n"


@pytest.mark.parametrize("text", ["x" * 65536, "line\n" * 13107, "\0\x1b[31m\xff" * 10922])
def test_ten_mebibytes_pass_and_a_bounded_tail_is_kept(keeper: Keeper, text: str) -> None:
    ended = keeper.run("prints", {"times": 160, "text": text})
    assert (ended.outcome, ended.result) == (Outcome.SUCCEEDED, '"printed"')
    assert OUTPUT_TAIL_BYTES - 4 <= len(ended.report.output.encode()) <= OUTPUT_TAIL_BYTES
    assert "\0" not in ended.report.output
    assert "\x1b" not in ended.report.output


def test_the_log_of_a_flood_is_bounded(keeper: Keeper, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ledgence_worker.output"):
        keeper.run("prints", {"times": 3, "text": "y" * 2 * LINE_BYTES})
        assert len(caplog.records) == 1
        assert len(caplog.records[0].getMessage()) < LINE_BYTES + 100
        caplog.clear()
        keeper.run("prints", {"times": 30, "text": "line\n" * 100})
    assert len(caplog.records) == LINES_PER_ATTEMPT + 1
    assert caplog.records[-1].getMessage().startswith("further output not logged")


def test_an_endless_printer_does_not_starve_its_neighbours(open_pool: Opener) -> None:
    keeper = open_pool(concurrency=2)
    flood = keeper.start("prints", {"times": 1_000_000_000, "text": "x" * 4095 + "\n"})
    keeper.run("echo", 0)
    before = time.monotonic()
    for number in range(100):
        assert keeper.run("echo", number).result == str(number)
    assert time.monotonic() - before < 5.0
    keeper.pool.stop(flood.task_id, flood.number, StopReason.CANCEL)
    assert keeper.end_of(flood).outcome is Outcome.CANCELLED


@pytest.mark.parametrize(("program", "result"), [("closes-output", '"closed"'), ("replaces-stdout", '"replaced"')])
def test_a_program_may_lose_its_output(keeper: Keeper, program: str, result: str) -> None:
    ended = keeper.run(program)
    assert (ended.outcome, ended.result, ended.confirmed) == (Outcome.SUCCEEDED, result, True)
    assert keeper.run("prints-politely").report.output.startswith("from print\n")
