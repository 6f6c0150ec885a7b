"""What an attempt left behind in its process: children, threads, a timer, another output or working directory."""

import concurrent.futures.thread
import os
import signal
import sys
import threading
import time
from types import CodeType
from typing import Final

_EXECUTOR_LOOP: Final[CodeType] = concurrent.futures.thread._worker.__code__

_LOOKS: Final = 10
_LOOK_SECONDS: Final = 0.005


class Leftovers:
    """Compares the process with what it was when its programs had been loaded."""

    def __init__(self) -> None:
        self._threads = frozenset(threading.enumerate())
        self._files = _files()

    def are_none(self) -> bool:
        """Return whether the process may run another attempt: nothing of the last one is still there.

        Child processes are counted exactly where this process adopts its orphans (see linux.become_subreaper).
        """
        return not _has_children() and not _has_timers() and not self._has_threads() and self._files == _files()

    def _has_threads(self) -> bool:
        if threading.active_count() == 1:
            return False
        # A thread may have done its work and be about to end, or to wait for more.
        for _ in range(_LOOKS):
            if not self._has_busy_threads():
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def _has_busy_threads(self) -> bool:
        frames = sys._current_frames()
        for thread in threading.enumerate():
            if thread.daemon or thread in self._threads:
                continue
            frame = frames.get(thread.ident or 0)
            # An idle thread of an executor waits in its loop; it does no work of the attempt.
            if frame is not None and frame.f_code is not _EXECUTOR_LOOP:
                return True
        return False


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _has_timers() -> bool:
    """Return whether an alarm is set: it would end the next attempt's process, which would be charged for it."""
    return any(signal.getitimer(which)[0] for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF))


def _files() -> list[tuple[int, int] | None]:
    """Return which files standard output, standard error and the working directory are."""
    return [_identity(1), _identity(2), _identity(".")]


def _identity(file: int | str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino
