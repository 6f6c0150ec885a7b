"""The search for due work, which remembers where the live head of each queue and priority begins."""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from ledgence import sql

# How long a remembered mark may hide work that is older than it.
RESCAN_SECONDS = 1.0

type Marks = dict[tuple[int, int], datetime]


class DueSearch:
    """Finds due intents for one channel. Safe on any thread: marks are replaced, never changed.

    A queue and priority may begin with what no search wants: dead rows, while an old snapshot is open, or intents of
    programs that the session cannot run. So a search leaves low-water marks, and for up to a second the next ones start
    there. What is older and comes late, and with the marks of dead rows a new priority, is found when that is over.
    """

    def __init__(self) -> None:
        # Where the live head began, when a search found as many as it asked for.
        self._marks: Marks = {}
        # Where a head of foreign programs ended, when a search found fewer and so had read everything.
        self._foreign: Marks = {}
        self._walked_at = float("-inf")

    def find(self, session_id: UUID, limit: int, *, using: str) -> list[UUID]:
        """Return up to ``limit`` task ids in the order in which they are due. Locks nothing."""
        return self.look(session_id, limit, using=using)()

    def look(self, session_id: UUID, limit: int, *, using: str) -> Callable[[], list[UUID]]:
        """Send the search and return what fetches its task ids; see find()."""
        if not limit:
            return list
        if time.monotonic() - self._walked_at >= RESCAN_SECONDS:
            self._marks, self._foreign = {}, {}
        # Another thread, with a repeated command of the channel, may replace them meanwhile.
        marks = self._marks
        if not marks:
            return self._walk(session_id, limit, using=using)
        rows = sql.send("find_due_from", using, {"session": session_id, "limit": limit, **_columns(marks)})

        def fetch() -> list[UUID]:
            found = rows()
            if len(found) < limit:
                return self._walk(session_id, limit, using=using)()
            self._marks = self._marks | _heads(found)
            return [row[0] for row in found]

        return fetch

    def _walk(self, session_id: UUID, limit: int, *, using: str) -> Callable[[], list[UUID]]:
        """Search every queue and priority, from its start or from where its head of foreign programs ended."""
        walked_at = self._walked_at if self._foreign else time.monotonic()
        rows = sql.send("find_due", using, {"session": session_id, "limit": limit, **_columns(self._foreign)})

        def fetch() -> list[UUID]:
            answer = rows()
            found = [row for row in answer if row[0] is not None]
            heads = _heads(found)
            is_full = len(found) == limit
            self._marks = heads if is_full else {}
            if not is_full and not self._foreign:
                ends = {(queue, priority): until for task, queue, priority, until in answer if task is None}
                self._foreign = {level: heads.get(level, until) for level, until in ends.items()}
            self._walked_at = walked_at
            return [row[0] for row in found]

        return fetch


def _columns(marks: Marks) -> dict[str, list[Any]]:
    return {
        "queues": [queue for queue, _ in marks],
        "priorities": [priority for _, priority in marks],
        "marks": list(marks.values()),
    }


def _heads(found: sql.Rows) -> Marks:
    """Return when the first of each queue and priority was available."""
    return {(queue, priority): available_at for _, queue, priority, available_at in reversed(found)}
