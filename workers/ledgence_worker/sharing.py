"""How sources of work share the slots: the acquirer and the receivers, in turn, so that none starves another.

A source that is alone reserves every free slot and waits as long as it may. Of several, each waits for work with one
slot only, and asks for more while its last request was filled; it waits less, or not at all, while others want slots.
"""

from typing import Final

from ledgence_worker.slots import SlotCounts

#: Waits of sources that hold what others may want.
SHORT_WAIT_SECONDS: Final = 1.0
#: One request of several sources takes no more, however much is free.
SHARED_MOST: Final = 32


class Share:
    """One source's share of the slots. Belongs to the source's thread."""

    def __init__(
        self, slots: SlotCounts, sources: int, *, most: int | None = None, linger_seconds: float = 0.0
    ) -> None:
        self._slots = slots
        self._is_alone = sources == 1
        self._is_scarce = sources > slots.count
        self._most = most if self._is_alone else min(most or SHARED_MOST, SHARED_MOST)
        self._linger_seconds = linger_seconds
        self._is_filled = False

    def reserve(self) -> int:
        """Wait for free slots and reserve what one request may ask for; return how many, 0 at the end."""
        if self._is_alone:
            return self._slots.reserve(self._most, linger_seconds=self._linger_seconds)
        if not self._is_filled:
            return self._slots.reserve(1)
        return self._slots.reserve(self._most, is_hungry=True, linger_seconds=self._linger_seconds)

    def wait_seconds(self, longest: float) -> float:
        """Return how long a request for the reserved slots may wait for work."""
        if self._is_alone:
            return longest
        if self._slots.is_wanted:
            return 0.0
        return min(longest, SHORT_WAIT_SECONDS) if self._is_filled or self._is_scarce else longest

    def note(self, *, asked: int, came: int) -> None:
        """Remember whether as much came as was asked for: then more is likely to be there."""
        self._is_filled = came >= asked
