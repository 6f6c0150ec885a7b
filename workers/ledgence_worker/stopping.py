"""How a worker stops: what it was told, by signals or by its own threads, and the phase that follows from it.

First signal: drain. Take no new work, let running programs finish within the grace, then stop them and give their work
back. Second signal: force. Kill everything now; leases that could not be given back expire.
"""

import logging
import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType

from ledgence_worker.clock import Clock

logger = logging.getLogger("ledgence_worker.stopping")

#: After the grace: five seconds from SIGTERM to SIGKILL of a program, and five to give its work back.
CLOSING_SECONDS = 10.0


class ExitCode(IntEnum):
    """How the worker process ended; the worst that happened counts."""

    # Everything taken was settled or given back.
    CLEAN = 0
    # Forced to stop, or an attempt was left to expire.
    FORCED = 1
    # It cannot work as it is configured, or its programs do not load.
    CONFIGURATION = 2
    # Its session expired, or a part of the worker failed.
    FAILED = 3


class Phase(IntEnum):
    """The phases of a worker's life, in order; it never goes back."""

    WORKING = 0
    # Takes no new work; running attempts may finish.
    DRAINING = 1
    # The grace is over: running attempts are stopped and given back.
    KILLING = 2
    # Everything is killed and nothing is waited for.
    FORCED = 3


class Interrupted(BaseException):
    """A stop signal came while the worker was starting: there is nothing to drain."""


class Stopping:
    """Decides the phase. Requests come from any thread or signal handler; update() belongs to the main thread."""

    def __init__(self, grace_seconds: float, clock: Clock, wake: Callable[[], None]) -> None:
        self._grace_seconds = grace_seconds
        self._clock = clock
        self._wake = wake
        self._signals = 0
        self._is_interrupting = False
        self._requests: list[tuple[str, ExitCode, float]] = []
        self._requests_seen = 0
        self._kills_at = math.inf
        self._phase = Phase.WORKING
        self.exit_code = ExitCode.CLEAN
        #: Why the worker stops; empty while it works.
        self.reason = ""
        #: Set when the phases begin, for threads that pause.
        self.draining = threading.Event()
        self.forced = threading.Event()

    @property
    def is_requested(self) -> bool:
        """Whether anything asks the worker to stop, seen by the main loop or not."""
        return bool(self._signals or self._requests or self.forced.is_set())

    @property
    def next_change_at(self) -> float:
        """When time alone brings the next phase."""
        return self._kills_at if self._phase < Phase.KILLING else self._kills_at + CLOSING_SECONDS

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        # A handler runs between any two instructions of the main thread: taking a lock or logging could hang it.
        if number == signal.SIGHUP and self._signals:
            # A terminal that goes away says so twice, by its shell and by the kernel: that forces nothing.
            return
        self._signals += 1
        self._wake()
        if self._is_interrupting:
            self._is_interrupting = False
            raise Interrupted

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Let the next signal raise Interrupted inside the block, which may wait for what never comes."""
        self._is_interrupting = True
        try:
            if self._signals:
                raise Interrupted
            yield
        finally:
            self._is_interrupting = False

    def request(self, reason: str, exit_code: ExitCode = ExitCode.CLEAN, *, grace_seconds: float | None = None) -> None:
        """Ask for a drain, from any thread; None stands for the usual grace."""
        grace_seconds = self._grace_seconds if grace_seconds is None else grace_seconds
        self._requests.append((reason, exit_code, grace_seconds))
        self._wake()

    def worsen(self, exit_code: ExitCode) -> None:
        """Remember that the worker cannot end better than this."""
        self.exit_code = max(self.exit_code, exit_code)

    def update(self, now: float) -> Phase:
        """Take in what was requested, and return the phase at this moment."""
        while self._requests_seen < len(self._requests):
            self._drain(*self._requests[self._requests_seen], now)
            self._requests_seen += 1
        if self._signals:
            self._drain("signal", ExitCode.CLEAN, self._grace_seconds, now)
        if self._phase is Phase.DRAINING and now >= self._kills_at:
            logger.warning("grace over, stopping what still runs reason=%s", self.reason)
            self._phase = Phase.KILLING
        if self._phase is not Phase.FORCED and (self._signals > 1 or now >= self._kills_at + CLOSING_SECONDS):
            self.force()
        return self._phase

    def _drain(self, reason: str, exit_code: ExitCode, grace_seconds: float, now: float) -> None:
        self._kills_at = min(self._kills_at, now + grace_seconds)
        self.worsen(exit_code)
        if self._phase is Phase.WORKING:
            logger.info("worker draining reason=%s grace_seconds=%s", reason, grace_seconds)
            self._phase = Phase.DRAINING
            self.reason = reason
            self.draining.set()

    def force(self) -> None:
        """Begin the last phase; main thread only."""
        logger.error("worker forced to stop reason=%s signals=%s", self.reason, self._signals)
        self._phase = Phase.FORCED
        self.worsen(ExitCode.FORCED)
        self.draining.set()
        self.forced.set()


@contextmanager
def stop_signals(stopping: Stopping) -> Iterator[None]:
    """Let SIGTERM, SIGINT and SIGHUP stop the worker while the block runs; main thread only.

    As the first process of a container a Python process without handlers ignores them, so they are always installed,
    except where nohup has asked to ignore that the terminal goes away.
    """
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, stopping.on_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
