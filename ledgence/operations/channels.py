"""The channels of a session: one command at a time on each, and the record of what the last one was answered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from ledgence import sql
from ledgence.operations.take import assignment
from ledgence_worker import limits
from ledgence_worker.errors import InvalidInput, NotFound, OutOfOrder, SessionExpired
from ledgence_worker.protocol import Assignment

#: The highest number that a channel's column holds.
CHANNEL_MAX = 32_767

#: Assignments that are live, and the (task, number) of those whose authority has ended.
type Recorded = tuple[tuple[Assignment, ...], tuple[tuple[UUID, int], ...]]


def check_channel(what: str, channel: int, sequence: int) -> None:
    """Refuse a channel or sequence that cannot exist. Raises InvalidInput."""
    limits.check_range(f"{what}: channel", channel, 0, CHANNEL_MAX)
    if sequence < 1:
        raise InvalidInput(f"{what}: sequence is {sequence}; a channel counts from 1.")


def lock_channel(session_id: UUID, channel: int, *, using: str) -> Callable[[], sql.Rows]:
    """Lock a channel for one command; open_channel makes it on first use."""
    return sql.send("lock_channel", using, {"session": session_id, "channel": channel})


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A channel that is taken for a command: what is recorded, if it was answered before, and whether to drain."""

    recorded: Recorded | None
    is_draining: bool


def open_channel(session_id: UUID, channel: int, sequence: int, rows: sql.Rows, *, using: str) -> Opened:
    """Check the command ``sequence`` against its locked channel. Raises NotFound, SessionExpired and OutOfOrder."""
    if not rows:
        sql.run("make_channel", using, {"session": session_id, "channel": channel})
        rows = lock_channel(session_id, channel, using=using)()
    if not rows:
        raise NotFound(f"Worker session {session_id} does not exist; open one.")
    last, tasks, attempts, live, is_draining = rows[0]
    if sequence == last:
        recorded = find_recorded(session_id, tasks, attempts, using=using)
        return Opened(recorded=recorded, is_draining=is_draining)
    if not live:
        raise SessionExpired(f"Worker session {session_id} is closed or expired; open a new one.")
    if sequence != last + 1:
        raise OutOfOrder(f"Session {session_id} channel {channel}: sequence {sequence} came after {last}.")
    return Opened(recorded=None, is_draining=is_draining)


def find_recorded(session_id: UUID, tasks: Sequence[UUID], attempts: Sequence[int], *, using: str) -> Recorded:
    """Read recorded assignments again: those that are live, with what is left of each lease, and those that are not."""
    rows = sql.run("find_assignments", using, {"session": session_id, "tasks": list(tasks), "attempts": list(attempts)})
    live = tuple(assignment(row) for row in rows if row[11] is not None)
    lost = tuple((row[0], row[1]) for row in rows if row[11] is None)
    return live, lost


def record_answer(session_id: UUID, channel: int, sequence: int, taken: Sequence[Assignment], *, using: str) -> None:
    """Record on a locked channel what its command is answered."""
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
