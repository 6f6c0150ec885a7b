"""The messages of a queue in memory: those that wait, and those that are in flight until their visibility is over."""

import heapq
from collections import deque
from dataclasses import dataclass
from itertools import count


@dataclass(slots=True, kw_only=True)
class Held:
    """One message. ``receipt`` is that of its newest delivery, empty before the first."""

    message_id: str
    body: str
    receipt: str = ""


class HeldMessages:
    """Waiting and in-flight messages. It takes no lock: its owner does. Times are seconds of the owner's clock."""

    def __init__(self) -> None:
        self.waiting: deque[Held] = deque()
        self._flying: dict[str, Held] = {}
        self._ends: list[tuple[float, str]] = []
        self._deliveries = count(1)

    @property
    def in_flight(self) -> int:
        return len(self._flying)

    def deliver(self, address: str, until: float) -> Held:
        """Take the first waiting message into flight under a new receipt; the ones before it are stale."""
        held = self.waiting.popleft()
        held.receipt = f"{address}/{held.message_id}/{next(self._deliveries)}"
        self._flying[held.receipt] = held
        heapq.heappush(self._ends, (until, held.receipt))
        return held

    def remove(self, receipt: str) -> bool:
        """Remove the message whose newest delivery this is, also when its visibility is over; return whether it was."""
        if self._flying.pop(receipt, None) is not None:
            return True
        for held in self.waiting:
            if held.receipt == receipt:
                self.waiting.remove(held)
                return True
        return False

    def give_back(self, receipt: str) -> bool:
        """Let a message in flight wait again; return whether it was in flight."""
        held = self._flying.pop(receipt, None)
        if held is not None:
            self.waiting.append(held)
        return held is not None

    def land(self, now: float) -> None:
        """Let those wait again whose visibility is over: equality is over."""
        while self._ends and self._ends[0][0] <= now:
            self.give_back(heapq.heappop(self._ends)[1])

    def next_end(self) -> float | None:
        """Return when the next visibility is over, or None."""
        while self._ends and self._ends[0][1] not in self._flying:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def clear(self) -> None:
        """Forget every message."""
        self.waiting.clear()
        self._flying.clear()
        self._ends.clear()
