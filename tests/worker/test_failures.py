"""Exceptions as plain bounded text."""

import signal

import pytest

from ledgence_worker.failures import describe, head, plain_text, tail
from ledgence_worker.limits import ERROR_MESSAGE_BYTES, TRACEBACK_BYTES


def caught(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as same:
        return same


class Meta(type):
    @property
    def __module__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no module")


class Unnamed(Exception, metaclass=Meta):
    pass


class Numeric(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


def test_classes_are_dotted_names_with_bases() -> None:
    report = describe(caught(KeyError("k")))
    assert report.classes == (
        "builtins.KeyError",
        "builtins.LookupError",
        "builtins.Exception",
        "builtins.BaseException",
    )
    assert report.message == "'k'"


def test_hostile_exceptions_are_described_somehow() -> None:
    assert describe(caught(Numeric())).message == "<its message could not be made: TypeError>"
    assert describe(caught(Unnamed())).classes[-1] == "builtins.BaseException"


def test_text_is_bounded_in_bytes() -> None:
    report = describe(caught(ValueError("é" * 10_000)))
    assert len(report.message.encode()) <= ERROR_MESSAGE_BYTES
    assert report.message.endswith(" [cut]")
    assert len(report.traceback.encode()) <= TRACEBACK_BYTES


def test_a_long_chain_is_bounded() -> None:
    error: BaseException = ValueError("first")
    for number in range(3000):
        following = ValueError(f"number {number}")
        following.__cause__ = error
        error = following
    report = describe(caught(error))
    assert "number 2999" in report.traceback
    assert len(report.traceback.encode()) <= TRACEBACK_BYTES


def test_the_alarm_is_given_back() -> None:
    before = signal.getsignal(signal.SIGALRM)
    describe(caught(ValueError()))
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize(("text", "plain"), [("a\0b", "a\\x00b"), ("\ud800", "\\ud800"), ("é😀\n\t", "é😀\n\t")])
def test_plain_text_can_be_stored_anywhere(text: str, plain: str) -> None:
    assert plain_text(text) == plain


def test_cuts_keep_whole_characters() -> None:
    for limit in range(20, 30):
        for cut in (head("é" * 100, limit), tail("é" * 100, limit)):
            assert len(cut.encode()) <= limit
            assert set(cut) == set("é[cut] ")
    assert head("short", 10) == tail("short", 10) == "short"
