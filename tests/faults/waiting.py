"""Waiting for a condition with a deadline that reports what was seen, instead of sleeping and hoping."""

import time
from collections.abc import Callable

#: Far above what anything here takes, so that only a real fault reaches it.
DEADLINE_SECONDS = 60.0
POLL_SECONDS = 0.02


def wait_until[T](look: Callable[[], T], what: str, *, seconds: float = DEADLINE_SECONDS) -> T:
    """Look until the answer is true, and return it. Raises AssertionError with the last answer after the deadline."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"gave up after {seconds:g} s waiting for {what}; saw {seen!r}")
        time.sleep(POLL_SECONDS)
    return seen
