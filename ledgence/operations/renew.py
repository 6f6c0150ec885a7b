"""Renewal: the owners of live leases keep them."""

from collections.abc import Sequence
from uuid import UUID

from ledgence import sql
from ledgence.conf import get_settings
from ledgence_worker.protocol import Owner, Renewal, RenewStatus


def renew(session_id: UUID, owners: Sequence[Owner], *, using: str) -> list[Renewal]:
    """Extend live leases to now + L, at most to their bound. Never revives, never waits for a lock.

    Each answers renewed (with its remaining seconds and whether cancellation was requested), busy (somebody's
    transaction holds the lease: ask again at once) or ownership_lost.
    """
    columns = {
        "session": session_id,
        "tasks": [o.task_id for o in owners],
        "numbers": [o.number for o in owners],
        "tokens": [o.token for o in owners],
        "lease_seconds": get_settings().lease_seconds,
    }
    answers = {
        (task, number): Renewal(
            task_id=task,
            number=number,
            status=RenewStatus.RENEWED,
            remaining_seconds=remaining,
            cancel_requested=cancel_requested,
        )
        for task, number, remaining, cancel_requested in sql.run("renew_leases", using, columns)
    }
    busy: set[tuple[UUID, int]] = set()
    if len(answers) < len(owners):
        busy = {(row[0], row[1]) for row in sql.run("find_live_leases", using, columns)}
    return [
        answers.get((o.task_id, o.number))
        or Renewal(
            task_id=o.task_id,
            number=o.number,
            status=RenewStatus.BUSY if (o.task_id, o.number) in busy else RenewStatus.OWNERSHIP_LOST,
        )
        for o in owners
    ]
