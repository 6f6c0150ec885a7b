"""Expiry: leases whose time is over end their attempts as lost."""

import logging
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import DatabaseError, OperationalError

from ledgence import hints, sql
from ledgence.rollups import count_ends
from ledgence.transitions import transition

logger = logging.getLogger("ledgence.expire")

PAGE = 200


def expire(*, using: str, page: int = PAGE) -> int:
    """End expired leases, page by page, until none is left that nobody holds. Return how many were ended.

    Each page is one transaction. Rows that are held are skipped and come again with the next call; a page's own rows
    are gone when it commits, so later ones cannot starve. Where the database refuses to end one, as a trigger of the
    project's may, the others are ended one by one; that one is logged and left to the next call.
    """
    ended = 0
    passed: list[UUID] = []
    while True:
        held: sql.Rows = []
        try:
            with transition(using, what="expire"):
                held = sql.run("lock_expired_leases", using, {"limit": page, "passed": passed})
                gone = len(end_as_lost(held, live=False, using=using))
        except DatabaseError as error:
            # A time-out or a broken connection says nothing of a row: the next turn tries all of them again.
            if not held or isinstance(error, OperationalError):
                raise
            if len(held) == 1:
                logger.error("lease cannot be ended task=%s attempt=%s error=%s", *held[0][:2], error)
                passed.append(held[0][0])
            page = 1
            continue
        ended += gone
        # A page that ended nothing would come again: the clock was set back between its two statements.
        if len(held) < page or not gone:
            return ended


def seconds_to_next_expiry(*, using: str) -> float | None:
    """Return when the next lease expires, in seconds from now (negative: it has), or None without any lease."""
    rows = sql.run("next_expiry", using)
    return rows[0][0] if rows else None


def end_as_lost(held: Sequence[tuple[Any, ...]], *, live: bool | None, using: str) -> list[UUID]:
    """End attempts whose leases this transaction holds as lost, and return their tasks."""
    if not held:
        return []
    none = [None] * len(held)
    rows = sql.run(
        "end_attempts",
        using,
        {
            "tasks": [row[0] for row in held],
            "numbers": [row[1] for row in held],
            "tokens": [row[2] for row in held],
            "sessions": [row[3] for row in held],
            "outcomes": ["lost"] * len(held),
            "settlements": none,
            "results": none,
            "reports": none,
            "classes": none,
            "live": live,
        },
    )
    hints.announce({queue for _, _, consequence, queue in rows if consequence == "retry"}, using=using)
    count_ends([(queue, consequence) for _, _, consequence, queue in rows], using=using)
    return [row[0] for row in rows]
