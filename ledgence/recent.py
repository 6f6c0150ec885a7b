"""A memory of limited size, for threads: what was asked for last stays, and the rest is forgotten."""

import threading
from collections import OrderedDict
from collections.abc import Callable


class Recent[Key, Value]:
    """Remembers up to ``maximum`` values, of whichever keys were asked for last. May be used by any thread."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        """Return what is remembered of a key."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return what is remembered, or what ``make`` returns from now on: all who ask get the same one."""
        with self._lock:
            if key not in self._values:
                self._values[key] = make()
                if len(self._values) > self._maximum:
                    self._values.popitem(last=False)
            self._values.move_to_end(key)
            return self._values[key]
