"""The search for due work, which remembers where the live head of each queue and priority begins."""

import time
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
        if self._marks and time.monotonic() - self._walked_at < RESCAN_SECONDS:
            rows = sql.run(
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
            if len(rows) == limit:
                return self._remember(rows)
        rows = sql.run("find_due", using, {"session": session_id, "limit": limit})
        self._walked_at = time.monotonic()
        self._marks.clear()
        return self._remember(rows) if len(rows) == limit else [row[0] for row in rows]

    def _remember(self, rows: list[tuple[UUID, int, int, datetime]]) -> list[UUID]:
        for _, queue, priority, available_at in reversed(rows):
            self._marks[queue, priority] = available_at
        return [row[0] for row in rows]
