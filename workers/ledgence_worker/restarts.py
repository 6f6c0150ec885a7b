"""Spaces out the starts of processes after some that could not load their programs."""

import logging
import time
from collections.abc import Callable
from typing import Final

logger = logging.getLogger("ledgence_worker.restarts")

#: The pause after a first failure; each further one doubles it, up to the maximum.
PAUSE_SECONDS: Final = 0.25
PAUSE_SECONDS_MAX: Final = 30.0


class Restarts:
    """Remembers the failures since the last process that got ready."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._paused_until = 0.0
        #: Why the last start failed, for people.
        self.reason = ""

    @property
    def is_paused(self) -> bool:
        """Whether nothing should be started yet."""
        return self._failures > 0 and self._clock() < self._paused_until

    def fail(self, reason: str) -> None:
        """Note a start that failed, and pause."""
        pause = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS * 2.0 ** min(self._failures, 16))
        self._failures += 1
        self._paused_until = self._clock() + pause
        self.reason = reason
        logger.error("process not started pause_seconds=%s reason=%s", pause, reason.partition("\n")[0])

    def succeed(self) -> None:
        """Note a start that succeeded."""
        self._failures = 0
