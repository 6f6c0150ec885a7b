"""What housekeeping watches and can only tell: operators act on it."""

import logging
from typing import NamedTuple

from ledgence import sql
from ledgence.models.session import silent_after

logger = logging.getLogger("ledgence.watch")

SNAPSHOT_SECONDS = 60.0
UNSERVED_SECONDS = 60.0


class Unserved(NamedTuple):
    """Due work of one program in one queue that no live worker serves."""

    tenant: str
    namespace: str
    queue: str
    program: str
    version: str
    tasks: int
    queue_id: int
    program_id: int


def old_snapshots(using: str) -> list[tuple[int, float]]:
    """Return (process id, age in seconds) of transactions whose snapshot is older than a minute.

    While one is open, dead intents and leases cannot be removed, and searches for due work slow down.
    """
    return [(pid, age) for pid, age in sql.run("find_old_snapshots", using, {"seconds": SNAPSHOT_SECONDS})]


def unserved_work(using: str) -> list[Unserved]:
    """Return the work that is due for a minute and that no live worker serves, by queue and program.

    The queue's name may be mistyped, a worker not running, or the version one that no worker has.
    """
    seconds = {"seconds": UNSERVED_SECONDS, "silent_seconds": silent_after().total_seconds()}
    return [Unserved(*row) for row in sql.run("find_unserved_work", using, seconds)]


def warn_of_old_snapshots(using: str) -> None:
    """Log old_snapshots()."""
    for pid, age in old_snapshots(using):
        logger.warning("old snapshot keeps dead rows pid=%s age_seconds=%.0f", pid, age)


def warn_of_unserved_work(using: str) -> None:
    """Log unserved_work()."""
    for one in unserved_work(using):
        logger.warning(
            "due work that no live worker serves tenant=%s namespace=%s queue=%s program=%s version=%s count=%s",
            *one[:6],
        )
