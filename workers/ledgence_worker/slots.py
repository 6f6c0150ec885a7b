"""The counts of slots: where each of the N places for an attempt is, and never more than N."""

import threading
import time
from collections import deque


class SlotsBroken(RuntimeError):
    """The counts were asked for a slot that it does not have: a fault of the worker itself."""


class SlotCounts:
    """Counts slots as free, asked for, occupied or quarantined. Every method is one short critical section.

    A slot is asked for while a request for work is out, occupied from the assignment until its end is accepted, and
    quarantined when its process could not be confirmed gone.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count
        self._asked = 0
        self._occupied = 0
        self._quarantined = 0
        self._is_closed = False
        self._changed = threading.Condition(threading.Lock())
        # Who waits for free slots, first come first served; and how many of them have work at hand.
        self._line: deque[object] = deque()
        self._hungry = 0

    @property
    def free(self) -> int:
        return self._free

    @property
    def asked(self) -> int:
        return self._asked

    @property
    def occupied(self) -> int:
        return self._occupied

    @property
    def quarantined(self) -> int:
        return self._quarantined

    @property
    def is_wanted(self) -> bool:
        """Whether somebody with work at hand waits for a slot."""
        return self._hungry > 0

    def reserve(self, most: int | None = None, *, is_hungry: bool = False, linger_seconds: float = 0.0) -> int:
        """Wait in turn for free slots, reserve all of them, or at most ``most``, and return how many; 0 once closed.

        ``is_hungry``: there is work at hand for them. ``linger_seconds``: how long the first free ones wait for others
        that are occupied, where one request could have more.
        """
        place = object()
        with self._changed:
            self._line.append(place)
            self._hungry += is_hungry
            while not self._is_closed and not (self._free and self._line[0] is place):
                self._changed.wait()
            if linger_seconds:
                self._linger(most or self.count, linger_seconds)
            self._line.remove(place)
            self._hungry -= is_hungry
            if self._is_closed:
                return 0
            reserved = self._free if most is None else min(self._free, most)
            self._move(free=-reserved, asked=reserved)
            if self._free and self._line:
                self._changed.notify_all()
            return reserved

    def _linger(self, most: int, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._free < most and self._occupied and not self._is_closed:
            if (left := until - time.monotonic()) <= 0:
                return
            self._changed.wait(left)

    def occupy(self, *, asked: int, taken: int) -> None:
        """End a request for ``asked`` slots: ``taken`` are occupied now, the others free again."""
        with self._changed:
            self._move(asked=-asked, occupied=taken, free=asked - taken)

    def exchange(self, *, freed: int, stuck: int = 0, taken: int = 0) -> None:
        """Free the slots of accepted ends, quarantine the stuck ones, and occupy ``taken`` of the freed anew."""
        with self._changed:
            self._move(occupied=taken - freed - stuck, quarantined=stuck, free=freed - taken)

    def recover(self, count: int) -> None:
        """Free quarantined slots whose processes are gone after all."""
        with self._changed:
            self._move(quarantined=-count, free=count)

    def close(self) -> None:
        """Hand out nothing more: reserve() returns 0 from now on, for callers that wait as well."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _move(self, *, free: int, asked: int = 0, occupied: int = 0, quarantined: int = 0) -> None:
        after = (self._free + free, self._asked + asked, self._occupied + occupied, self._quarantined + quarantined)
        if min(after) < 0 or sum(after) != self.count:
            raise SlotsBroken(f"slots (free, asked, occupied, quarantined) would be {after} of {self.count}")
        self._free, self._asked, self._occupied, self._quarantined = after
        if free > 0:
            # All of them, so that whoever is first in line is among them.
            self._changed.notify_all()
