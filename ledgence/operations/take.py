"""What acquisition and the claim by name have in common: intents become leases, and rows become assignments."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from ledgence import sql
from ledgence.conf import get_settings
from ledgence.rollups import count_claims
from ledgence_worker.protocol import Assignment, EarlierAttempt


def take(
    session_id: UUID,
    tasks: Sequence[UUID],
    generations: Sequence[int] | None,
    limit: int,
    *,
    authorize: bool,
    using: str,
) -> list[Assignment]:
    """Turn the first free and due of the named intents into leases of a session."""
    settings = get_settings()
    rows = sql.send(
        "take_intents",
        using,
        {
            "session": session_id,
            "tasks": list(tasks),
            "generations": list(generations) if generations is not None else None,
            "limit": limit,
            "authorize": authorize,
            "lease_seconds": settings.lease_seconds,
            "cleanup_seconds": settings.cleanup_seconds,
        },
    )()
    count_claims([(row[15], row[16]) for row in rows], using=using)
    return [assignment(row) for row in rows]


def assignment(row: tuple[Any, ...]) -> Assignment:
    """Build an assignment from a row of take_intents or find_assignments."""
    claimed_at: datetime = row[10]
    return Assignment(
        task_id=row[0],
        number=row[1],
        token=row[2],
        cause=row[3],
        tenant=row[4],
        namespace=row[5],
        queue=row[6],
        program=row[7],
        version=row[8],
        data=row[9],
        claimed_at=claimed_at,
        remaining_seconds=row[11],
        timeout_seconds=row[12],
        traceparent=row[13],
        earlier=tuple(
            EarlierAttempt(number=number, cause=cause, outcome=outcome, finished_at=finished_at)
            for number, cause, outcome, finished_at in (json.loads(row[14]) if row[14] else ())
        ),
    )
