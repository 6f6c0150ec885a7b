"""What other threads hand to the main loop: batches of granted attempts, and orders to stop one."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ledgence_worker.authority import Authority
from ledgence_worker.pool import StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrder:
    """The main loop is to stop this attempt, if it still runs."""

    authority: Authority
    reason: StopReason


class Inbox:
    """A queue into the main loop that wakes it once per batch. Safe from any thread: deque appends are atomic."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._granted: deque[Sequence[Authority]] = deque()
        self._stops: deque[StopOrder] = deque()
        self._wake = wake

    def grant(self, batch: Sequence[Authority]) -> None:
        """Hand over attempts whose slots are occupied already."""
        self._granted.append(batch)
        self._wake()

    def stop(self, authority: Authority, reason: StopReason) -> None:
        """Order an attempt to be stopped."""
        self._stops.append(StopOrder(authority=authority, reason=reason))
        self._wake()

    def wake(self) -> None:
        """Make the main loop turn once, to look at what has changed."""
        self._wake()

    def take_granted(self) -> list[Authority]:
        """Return what was handed over since the last call."""
        taken: list[Authority] = []
        while self._granted:
            taken.extend(self._granted.popleft())
        return taken

    def take_stops(self) -> list[StopOrder]:
        """Return what was ordered since the last call."""
        taken: list[StopOrder] = []
        while self._stops:
            taken.append(self._stops.popleft())
        return taken
