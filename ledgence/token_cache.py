"""What this process has just found valid, so that a busy caller's token is not looked up for every request."""

import time
from threading import Lock

#: How many valid tokens are remembered; beyond that the oldest is forgotten.
TOKENS_MAX = 1024
#: For how long. It is what a revocation takes to be heard everywhere.
SECONDS = 1.0

#: The database's alias, and the SHA-256 of the token's whole text: the text itself is kept nowhere.
type Key = tuple[str, bytes]


class TokenCache[Value]:
    """Remembers what valid tokens give, for a second each. Safe on any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        #: In the order of insertion, which is nearly that of expiry.
        self._entries: dict[Key, tuple[float, Value]] = {}

    def get(self, key: Key) -> Value | None:
        """Return what a token gives, if it was looked up less than a second ago."""
        with self._lock:
            until, value = self._entries.get(key, (0.0, None))
            if value is None or time.monotonic() < until:
                return value
            del self._entries[key]
            return None

    def put(self, key: Key, value: Value, *, since: float, seconds_left: float | None) -> None:
        """Remember what a token gives, from ``since`` (monotonic, before the look-up), never beyond its expiry."""
        until = since + (SECONDS if seconds_left is None else min(SECONDS, seconds_left))
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = (until, value)
            if len(self._entries) > TOKENS_MAX:
                del self._entries[next(iter(self._entries))]
