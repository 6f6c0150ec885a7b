"""An outage of a broker: from the first batch that nobody answered until one is answered again."""

import logging
import threading
import time

from ledgence.operations.routes import QueueName
from ledgence_worker.clock import SystemClock
from ledgence_worker.patience import Patience, is_to_be_told

logger = logging.getLogger("ledgence.publishing")

#: The pauses between probes: the first, and the longest, with jitter.
FIRST_SECONDS = 0.5
LONGEST_SECONDS = 5.0


class Outage:
    """When one batch may be sent as a probe, ever more rarely, and what goes wrong."""

    def __init__(self, queue: QueueName) -> None:
        self._queue = queue
        self._patience = Patience(SystemClock(), threading.Event(), first=FIRST_SECONDS, ceiling=LONGEST_SECONDS)
        self._tries = 0
        #: What goes wrong; empty while the broker answers.
        self.failure = ""
        self.probe_at = 0.0

    @property
    def is_on(self) -> bool:
        return self._tries > 0

    @property
    def is_confirmed(self) -> bool:
        """Whether a probe has failed as well: it was no throttling of a moment."""
        return self._tries > 1

    def note_failure(self, failure: str) -> None:
        """Begin an outage, or go on with it after a probe that nobody answered."""
        self._tries += 1
        was, self.failure = self.failure, failure or "no reason told"
        self.probe_at = time.monotonic() + self._patience.next_seconds()
        if is_to_be_told(self._tries) or self.failure != was:
            logger.warning("broker does not answer queue=%s tries=%s error=%s", self._queue, self._tries, self.failure)

    def note_answer(self) -> None:
        """End the outage."""
        if self.is_on:
            logger.info("broker answers again queue=%s tries=%s", self._queue, self._tries)
        self._tries, self.failure = 0, ""
        self._patience.reset()
