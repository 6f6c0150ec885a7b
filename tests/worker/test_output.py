"""Output pipes: lines, limits, tails, without a process."""

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import pytest

from ledgence_worker.limits import OUTPUT_TAIL_BYTES
from ledgence_worker.output import LINE_BYTES, LINES_PER_ATTEMPT, Output

TASK = UUID(int=7)


@dataclass(frozen=True, slots=True)
class Pipe:
    """A pipe between a test and its Output."""

    writing: int
    output: Output

    def print(self, text: bytes) -> None:
        os.write(self.writing, text)
        self.output.read()


@pytest.fixture
def pipe(caplog: pytest.LogCaptureFixture) -> Iterator[Pipe]:
    caplog.set_level(logging.INFO, "ledgence_worker.output")
    reading, writing = os.pipe()
    output = Output(reading)
    output.begin(TASK, 2)
    yield Pipe(writing, output)
    output.close()
    os.close(writing)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().removeprefix(f"task={TASK} attempt=2 line=") for record in caplog.records]


def test_lines_are_put_together_from_pieces(pipe: Pipe, caplog: pytest.LogCaptureFixture) -> None:
    for piece in (b"one\ntw", b"o", b"\n\nthr", b"ee"):
        pipe.print(piece)
    assert lines(caplog) == ["one", "two", ""]
    assert pipe.output.finish() == "one\ntwo\n\nthree"
    assert lines(caplog)[3:] == ["three"]


def test_control_characters_cannot_forge_lines(pipe: Pipe, caplog: pytest.LogCaptureFixture) -> None:
    pipe.print(b"a\rb\x1b[2Jc\0\t\x7f\xc2\x9b\xff\n")
    assert pipe.output.finish() == "a\\x0db\\x1b[2Jc\\x00\t\\x7f\\x9b\ufffd\n"
    assert lines(caplog) == ["a\\x0db\\x1b[2Jc\\x00\t\\x7f\\x9b\ufffd"]


def test_long_lines_are_cut(pipe: Pipe, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(5):
        pipe.print(b"x" * 3000)
    pipe.print(b"\n" + b"y" * LINE_BYTES + b"\n")
    pipe.output.finish()
    assert lines(caplog) == ["x" * LINE_BYTES + " [cut]", "y" * LINE_BYTES]


def test_only_so_many_lines_are_logged(pipe: Pipe, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(4):
        pipe.print(b"line\n" * (LINES_PER_ATTEMPT // 2))
    assert len(lines(caplog)) == LINES_PER_ATTEMPT + 1
    pipe.output.begin(TASK, 2)
    pipe.print(b"again\n")
    assert lines(caplog)[-1] == "again"


def test_the_tail_is_bounded_and_whole(pipe: Pipe) -> None:
    for _ in range(30):
        pipe.print("é".encode() * 2000)
    kept = pipe.output.finish()
    assert set(kept) == {"é"}
    assert OUTPUT_TAIL_BYTES - 2 < len(kept.encode()) <= OUTPUT_TAIL_BYTES


def test_a_tail_that_grows_by_spelling_out_is_bounded(pipe: Pipe) -> None:
    pipe.print(b"\0" * 20_000)
    assert len(pipe.output.finish()) == OUTPUT_TAIL_BYTES


def test_a_new_attempt_starts_empty(pipe: Pipe) -> None:
    pipe.print(b"old")
    pipe.output.begin(TASK, 3)
    assert pipe.output.finish() == ""


def test_the_end_of_the_pipe_is_told() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    closed = Output(reading)
    with pytest.raises(EOFError):
        closed.read()
    assert closed.finish() == ""
    closed.close()
