"""Expiry: leases whose time is over end their attempts as lost."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from ledgence import hints, sql
from ledgence.transitions import transition

PAGE = 200


def expire(*, using: str, page: int = PAGE) -> int:
    """End expired leases, page by page, until none is left that nobody holds. Return how many were ended.

    Each page is one transaction. Rows that are held are skipped and come again with the next call; a page's own rows
    are gone when it commits, so later ones cannot starve.
    """
    ended = 0
    while True:
        with transition(using, what="expire"):
            held = sql.run("lock_expired_leases", using, {"limit": page})
            gone = len(end_as_lost(held, live=False, using=using))
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
    return [row[0] for row in rows]
