"""Patience with who does not answer, task service or broker: repeats with growing, jittered pauses, until stopped."""

import logging
import random
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from ledgence_worker.clock import Clock
from ledgence_worker.errors import LedgenceError, Unavailable

logger = logging.getLogger("ledgence_worker.patience")


class Whom(NamedTuple):
    """Who does not answer, in the words of the log."""

    away: str
    back: str


TASK_SERVICE: Final = Whom("task service not available", "task service answers again")
BROKER: Final = Whom("broker not available", "broker answers again")


class Forced(Exception):
    """The stop came while a command had no answer; what it may have got is left to expire."""


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

    def repeat[T](
        self,
        call: Callable[[], T],
        what: str,
        *,
        on: tuple[type[LedgenceError], ...] = (Unavailable,),
        whom: Whom = TASK_SERVICE,
    ) -> T:
        """Call until there is an answer that is not one of the errors ``on``. Raises Forced, and every other error."""
        tries = 1
        while True:
            try:
                answer = call()
            except on as error:
                note_outage(what, tries, error, whom=whom)
            else:
                if tries > 1:
                    note_recovery(what, tries, whom=whom)
                self.reset()
                return answer
            tries += 1
            if self.pause():
                raise Forced(f"{what} had no answer after {tries - 1} tries")


def note_outage(what: str, tries: int, error: object, *, is_new: bool = False, whom: Whom = TASK_SERVICE) -> None:
    """Log the first failure, then ever more rarely: an outage must be seen, and must not fill the disk.

    ``is_new``: it fails for another reason than before, which is to be seen at once.
    """
    if is_new or is_to_be_told(tries):
        logger.warning("%s command=%s tries=%s error=%s", whom.away, what, tries, error)


def note_recovery(what: str, tries: int, *, whom: Whom = TASK_SERVICE) -> None:
    logger.info("%s command=%s tries=%s", whom.back, what, tries)


def is_to_be_told(tries: int) -> bool:
    """Whether the failure of this number is one to log: the first, and then each at twice the number of the last."""
    return tries & (tries - 1) == 0
