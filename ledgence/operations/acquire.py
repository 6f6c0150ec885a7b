"""Acquisition: due intents become leases of the session that asks."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from ledgence import sql
from ledgence.conf import get_settings
from ledgence.operations.due import DueSearch
from ledgence.operations.settle import check_settlements, settle_held
from ledgence.transitions import transition
from ledgence_worker import limits
from ledgence_worker.errors import InvalidInput, NotFound, OutOfOrder, SessionExpired
from ledgence_worker.protocol import Acquire, Acquired, Assignment, EarlierAttempt

# Others look for the same head at the same time; what they hold is skipped, so look at more than is needed, and at
# still more while that is not enough.
LOOK = 4
LOOK_MAX = 64
#: The highest number that a channel's column holds.
CHANNEL_MAX = 32_767


def acquire(command: Acquire, *, using: str, search: DueSearch, record_empty: bool = True) -> Acquired | None:
    """Settle ended attempts and take due work on a channel, in one commit.

    Takes the first due intents of the session's queues and catalogue: highest priority first, then the longest
    available. Grants authorization at once. Repeating the channel's last sequence answers what was recorded. With
    ``record_empty`` false, finding nothing consumes no sequence and answers None: the caller may wait and ask again.
    Raises NotFound, SessionExpired, OutOfOrder, InvalidInput, Busy.
    """
    check_acquire(command)
    with transition(using, what="acquire", batched=True):
        # Sent before anything is read: one round trip for all of it. A repeated command settles nothing twice, and an
        # error rolls everything back.
        channel = lock_channel(command.session_id, command.channel, using=using)
        settle_answers = settle_held(command.session_id, command.settlements, using=using)
        due = search.look(command.session_id, LOOK * command.capacity, using=using)
        replayed = open_channel(command.session_id, command.channel, command.sequence, channel(), using=using)
        settled = tuple(settle_answers())
        if replayed is not None:
            assignments, lost = replayed
            return Acquired(assignments=assignments, lost=lost, settled=settled)
        taken = take_due(command.session_id, command.capacity, due, search, using=using)
        if not taken and not settled and not record_empty:
            return None
        record_answer(command.session_id, command.channel, command.sequence, taken, using=using)
        return Acquired(assignments=tuple(taken), settled=settled)


def check_acquire(command: Acquire) -> None:
    check_channel("acquire", command.channel, command.sequence)
    limits.check_range("acquire: capacity", command.capacity, 0, limits.CONCURRENCY_MAX)
    limits.check_range("acquire: wait_seconds", command.wait_seconds, 0, limits.WAIT_SECONDS_MAX)
    check_settlements(command.settlements)


def check_channel(what: str, channel: int, sequence: int) -> None:
    limits.check_range(f"{what}: channel", channel, 0, CHANNEL_MAX)
    if sequence < 1:
        raise InvalidInput(f"{what}: sequence is {sequence}; a channel counts from 1.")


type Recorded = tuple[tuple[Assignment, ...], tuple[tuple[UUID, int], ...]]


def lock_channel(session_id: UUID, channel: int, *, using: str) -> Callable[[], sql.Rows]:
    """Lock a channel for one command; open_channel makes it on first use."""
    return sql.send("lock_channel", using, {"session": session_id, "channel": channel})


def open_channel(session_id: UUID, channel: int, sequence: int, rows: sql.Rows, *, using: str) -> Recorded | None:
    """Check the command ``sequence`` against its locked channel; return what is recorded if it was answered before."""
    if not rows:
        sql.run("make_channel", using, {"session": session_id, "channel": channel})
        rows = lock_channel(session_id, channel, using=using)()
    if not rows:
        raise NotFound(f"Worker session {session_id} does not exist; open one.")
    last, tasks, attempts, live = rows[0]
    if sequence == last:
        return find_recorded(session_id, tasks, attempts, using=using)
    if not live:
        raise SessionExpired(f"Worker session {session_id} is closed or expired; open a new one.")
    if sequence != last + 1:
        raise OutOfOrder(f"Session {session_id} channel {channel}: sequence {sequence} came after {last}.")
    return None


def find_recorded(session_id: UUID, tasks: Sequence[UUID], attempts: Sequence[int], *, using: str) -> Recorded:
    rows = sql.run("find_assignments", using, {"session": session_id, "tasks": list(tasks), "attempts": list(attempts)})
    live = tuple(assignment(row) for row in rows if row[11] is not None)
    lost = tuple((row[0], row[1]) for row in rows if row[11] is None)
    return live, lost


def record_answer(session_id: UUID, channel: int, sequence: int, taken: Sequence[Assignment], *, using: str) -> None:
    sql.send(
        "record_answer",
        using,
        {
            "session": session_id,
            "channel": channel,
            "sequence": sequence,
            "tasks": [a.task_id for a in taken],
            "attempts": [a.number for a in taken],
        },
    )


def take_due(
    session_id: UUID, capacity: int, due: Callable[[], list[UUID]], search: DueSearch, *, using: str
) -> list[Assignment]:
    """Take up to ``capacity`` of the intents that a search found, looking further while others hold the first ones."""
    taken: list[Assignment] = []
    looked = LOOK * capacity
    while capacity:
        found = due()
        seen = {a.task_id for a in taken}
        if wanted := [task for task in found if task not in seen]:
            taken += take(session_id, wanted, None, capacity - len(taken), authorize=True, using=using)
        if len(taken) == capacity or len(found) < looked or looked > LOOK_MAX * capacity:
            break
        looked *= LOOK
        due = search.look(session_id, looked, using=using)
    return taken


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
    rows = sql.run(
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
    )
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
