"""Turns any exception, however hostile, into plain bounded text: only that leaves the process that caught it."""

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from ledgence_worker.limits import ERROR_MESSAGE_BYTES, TRACEBACK_BYTES
from ledgence_worker.programs import class_name
from ledgence_worker.protocol import ErrorReport

#: How long the exception's own code (__str__, __repr__, __notes__) may take, in seconds.
_PATIENCE_SECONDS: Final = 2.0
_CLASSES_MAX: Final = 64
_CUT: Final = " [cut]"


class _TooSlow(BaseException):
    """The exception's own code did not return in time. Not an Exception, so that traceback does not swallow it."""


def describe(error: BaseException) -> ErrorReport:
    """Return what an exception says about itself: classes, message and traceback, within the limits. Never raises.

    Call it in the main thread: it borrows SIGALRM to interrupt an exception whose own code hangs.
    """
    try:
        with _patience():
            return ErrorReport(classes=_classes(error), message=_message(error), traceback=_traceback(error))
    except BaseException:
        # It is hostile or there is no memory: say only what takes no code of its own.
        classes: tuple[str, ...] = ("builtins.Exception", "builtins.BaseException")
        return ErrorReport(classes=classes, message="The exception could not be described.", traceback="")


def own_report(error: Exception) -> ErrorReport:
    """Return what is told of an error that the worker itself met: no traceback, since no program raised it."""
    message = head(plain_text(str(error)), ERROR_MESSAGE_BYTES)
    return ErrorReport(classes=(class_name(type(error)),), message=message, traceback="")


def plain_text(text: str) -> str:
    """Return text that every store takes: lone surrogates and NUL are spelled out."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def head(text: str, limit: int) -> str:
    """Return the text's beginning, at most ``limit`` bytes of UTF-8 with its mark."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: limit - len(_CUT)].decode(errors="ignore") + _CUT


def tail(text: str, limit: int) -> str:
    """Return the text's end, at most ``limit`` bytes of UTF-8 with its mark."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return _CUT.strip() + " " + encoded[len(encoded) - limit + len(_CUT) :].decode(errors="ignore")


def _classes(error: BaseException) -> tuple[str, ...]:
    bases = type(error).__mro__[:_CLASSES_MAX]
    return tuple(head(plain_text(class_name(base)), 256) for base in bases if base is not object)


def _message(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception as second:
        message = f"<its message could not be made: {type(second).__name__}>"
    # A message of 50 MB is cut before it is copied again and again.
    return head(plain_text(message[:ERROR_MESSAGE_BYTES]), ERROR_MESSAGE_BYTES)


def _traceback(error: BaseException) -> str:
    # The first entry is the line that called the program, which says nothing.
    entries = error.__traceback__ and error.__traceback__.tb_next
    try:
        text = "".join(traceback.format_exception(type(error), error, entries))
    except Exception as second:
        text = f"<its traceback could not be made: {type(second).__name__}>"
    return tail(plain_text(text[-TRACEBACK_BYTES:]), TRACEBACK_BYTES)


@contextmanager
def _patience() -> Iterator[None]:
    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise _TooSlow

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)
