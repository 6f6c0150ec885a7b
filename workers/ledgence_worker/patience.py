"""Patience with a task service that does not answer: repeats with growing, jittered pauses, until forced to stop."""

import logging
import random
import threading
from collections.abc import Callable

from ledgence_worker.clock import Clock
from ledgence_worker.errors import LedgenceError, Unavailable

logger = logging.getLogger("ledgence_worker.patience")


class Forced(Exception):
    """The worker was forced to stop while a command had no answer; its lease, if it got one, is left to expire."""


class Patience:
    """Pauses of 50 ms to 2 s, each about twice the one before, with jitter so that workers do not return in step."""

    def __init__(self, clock: Clock, stop: threading.Event, *, first: float = 0.05, ceiling: float = 2.0) -> None:
        self._clock = clock
        self._stop = stop
        self._first = first
        self._ceiling = ceiling
        self._next = first

    def reset(self) -> None:
        self._next = self._first

    def next_seconds(self) -> float:
        """Return the next pause and lengthen the one after it."""
        delay = self._next
        self._next = min(self._ceiling, delay * 2)
        return delay * random.uniform(0.5, 1.0)  # noqa: S311 - jitter is no secret

    def pause(self) -> bool:
        """Pause, and return whether the stop came meanwhile."""
        return self._clock.wait(self._stop, self.next_seconds())

    def repeat[T](self, call: Callable[[], T], what: str, *, on: tuple[type[LedgenceError], ...] = (Unavailable,)) -> T:
        """Call until there is an answer that is not one of the errors ``on``. Raises Forced, and every other error."""
        tries = 1
        while True:
            try:
                answer = call()
            except on as error:
                note_outage(what, tries, error)
            else:
                if tries > 1:
                    note_recovery(what, tries)
                self.reset()
                return answer
            tries += 1
            if self.pause():
                raise Forced(f"{what} had no answer after {tries - 1} tries")


def note_outage(what: str, tries: int, error: Exception) -> None:
    """Log the first failure, then ever more rarely: an outage must be seen, and must not fill the disk."""
    if tries & (tries - 1) == 0:
        logger.warning("task service not available command=%s tries=%s error=%s", what, tries, error)


def note_recovery(what: str, tries: int) -> None:
    logger.info("task service answers again command=%s tries=%s", what, tries)
