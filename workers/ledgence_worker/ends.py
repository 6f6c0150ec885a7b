"""The ends of attempts on their way from the main loop to the settler."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ledgence_worker import limits
from ledgence_worker.authority import Authority
from ledgence_worker.clock import Clock
from ledgence_worker.protocol import Settlement

#: How many characters of results are taken at once, or one result that has more. What it takes to send a batch grows
#: with the square of its size: of large results a dozen together took longer than a statement may.
BATCH_CHARACTERS: Final = limits.RESULT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What is to be told about one attempt: its settlement, or None to give its work back."""

    authority: Authority
    settlement: Settlement | None
    #: No process of it is left, so its slot is free once the end is accepted.
    is_confirmed: bool = True
    #: The task service refused the first settlement as invalid; this one says so in its place.
    is_replacement: bool = False


class EndQueue:
    """Collects ends for the settler, which takes all there are, or as many as their results let it: see take().

    The main loop puts, the settler's thread does the rest. A first end lingers a little so that others can join its
    commit, unless nothing is running that could.
    """

    def __init__(self, linger_seconds: float, clock: Clock) -> None:
        self._linger_seconds = linger_seconds
        self._clock = clock
        self._condition = threading.Condition(threading.Lock())
        self._ends: list[End] = []
        self._first_at = 0.0
        self._is_last = False
        self._is_waiting = False
        self._is_closed = False
        self._again: list[End] = []
        self._again_at = 0.0

    def put(self, ends: Sequence[End], *, is_last: bool) -> None:
        """Add ends; ``is_last`` says that nothing else runs."""
        with self._condition:
            if not self._ends:
                self._first_at = self._clock.monotonic()
            self._ends.extend(ends)
            self._is_last = is_last
            # A lingering settler is let sleep: each wake-up would cost the main loop its turn at the interpreter.
            if self._is_waiting or is_last:
                self._condition.notify()

    def put_again(self, ends: Sequence[End], delay_seconds: float) -> None:
        """Keep ends that met a locked row, apart from the others, until the delay is over."""
        with self._condition:
            self._again.extend(ends)
            self._again_at = self._clock.monotonic() + delay_seconds

    def take(self) -> list[End] | None:
        """Wait for ends and return all of them; [] when only those kept for later are due, None once closed.

        Of ends with large results only the first ones are returned (BATCH_CHARACTERS); the next call returns more.
        """
        with self._condition:
            while not self._ends and not self._is_closed:
                wait = self._again_at - self._clock.monotonic() if self._again else None
                if wait is not None and wait <= 0:
                    return []
                self._is_waiting = True
                self._condition.wait(wait)
                self._is_waiting = False
            if not self._ends:
                return None
            linger = self._first_at + self._linger_seconds - self._clock.monotonic()
            if linger > 0 and not self._is_last and not self._is_closed:
                self._condition.wait(linger)
            count = _batch(self._ends)
            taken, self._ends = self._ends[:count], self._ends[count:]
            return taken

    def take_again(self) -> list[End]:
        """Return the ends kept for later, if their time has come."""
        with self._condition:
            if not self._again or self._clock.monotonic() < self._again_at:
                return []
            count = _batch(self._again)
            taken, self._again = self._again[:count], self._again[count:]
            return taken

    def close(self) -> None:
        """Let take() return None once everything put was taken."""
        with self._condition:
            self._is_closed = True
            self._condition.notify()


def _batch(ends: Sequence[End]) -> int:
    """Return how many of the first ends are told at once: at least one."""
    room = BATCH_CHARACTERS
    for place, end in enumerate(ends):
        if end.settlement is not None:
            room -= len(end.settlement.result or "")
        if room < 0:
            return max(1, place)
    return len(ends)
