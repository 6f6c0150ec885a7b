"""The search for due work, which remembers where the live head of each queue and priority begins."""

import time
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from ledgence import sql

# How long a remembered mark may hide work that is older than it.
RESCAN_SECONDS = 1.0


class DueSearch:
    """Finds due intents for one channel. Not shared between threads.

    While an old snapshot is open, taken intents stay in the table as dead rows before the live head. A search that
    found as many as it asked for leaves low-water marks; for up to a second, the next ones start there.
    """

    def __init__(self) -> None:
        self._marks: dict[tuple[int, int], datetime] = {}
        self._walked_at = float("-inf")

    def find(self, session_id: UUID, limit: int, *, using: str) -> list[UUID]:
        """Return up to ``limit`` task ids in the order in which they are due. Locks nothing."""
        return self.look(session_id, limit, using=using)()

    def look(self, session_id: UUID, limit: int, *, using: str) -> Callable[[], list[UUID]]:
        """Send the search and return what fetches its task ids; see find()."""
        if not limit:
            return list
        if not self._marks or time.monotonic() - self._walked_at >= RESCAN_SECONDS:
            return self._walk(session_id, limit, using=using)
        rows = sql.send(
            "find_due_from",
            using,
            {
                "session": session_id,
                "queues": [queue for queue, _ in self._marks],
                "priorities": [priority for _, priority in self._marks],
                "marks": list(self._marks.values()),
                "limit": limit,
            },
        )

        def fetch() -> list[UUID]:
            found = rows()
            return self._remember(found) if len(found) == limit else self._walk(session_id, limit, using=using)()

        return fetch

    def _walk(self, session_id: UUID, limit: int, *, using: str) -> Callable[[], list[UUID]]:
        """Search from the start of every queue and priority."""
        walked_at = time.monotonic()
        rows = sql.send("find_due", using, {"session": session_id, "limit": limit})

        def fetch() -> list[UUID]:
            found = rows()
            self._walked_at = walked_at
            self._marks.clear()
            return self._remember(found) if len(found) == limit else [row[0] for row in found]

        return fetch

    def _remember(self, rows: sql.Rows) -> list[UUID]:
        for _, queue, priority, available_at in reversed(rows):
            self._marks[queue, priority] = available_at
        return [row[0] for row in rows]
