"""Authorization: permission to start user code under a claim by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from ledgence import sql
from ledgence.conf import get_settings
from ledgence.transitions import transition
from ledgence_worker.protocol import Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """One owner's answer. ``timeout_seconds`` is what is left of the execution time (None: unlimited)."""

    owner: Owner
    is_granted: bool
    timeout_seconds: float | None = None


def authorize(session_id: UUID, owners: Sequence[Owner], *, using: str) -> list[Authorization]:
    """Grant permission to start user code; refused when cancelled, expired or past the deadline. Replayed.

    The first grant sets the execution deadline; a repeat answers what is left of it.
    """
    with transition(using, what="authorize"):
        rows = sql.run(
            "authorize_attempts",
            using,
            {
                "session": session_id,
                "tasks": [o.task_id for o in owners],
                "numbers": [o.number for o in owners],
                "tokens": [o.token for o in owners],
                "cleanup_seconds": get_settings().cleanup_seconds,
            },
        )
    granted = {(task, number): timeout for task, number, timeout in rows}
    return [
        Authorization(
            owner=o,
            is_granted=(o.task_id, o.number) in granted,
            timeout_seconds=granted.get((o.task_id, o.number)),
        )
        for o in owners
    ]
