"""What housekeeping watches and can only tell: operators act on it."""

import logging

from ledgence import sql

logger = logging.getLogger("ledgence.watch")

SNAPSHOT_SECONDS = 60.0
UNSERVED_SECONDS = 60.0


def warn_of_old_snapshots(using: str) -> list[tuple[int, float]]:
    """Log and return (process id, age in seconds) of transactions whose snapshot is older than a minute.

    While one is open, dead intents and leases cannot be removed, and searches for due work slow down.
    """
    rows = [(pid, age) for pid, age in sql.run("find_old_snapshots", using, {"seconds": SNAPSHOT_SECONDS})]
    for pid, age in rows:
        logger.warning("old snapshot keeps dead rows pid=%s age_seconds=%.0f", pid, age)
    return rows


def warn_of_unserved_work(using: str) -> list[tuple[str, str]]:
    """Log and return (queue, program with version) of work that is due for a minute and that no open session serves.

    The queue's name may be mistyped, a worker not running, or the version one that no worker has.
    """
    rows = sql.run("find_unserved_work", using, {"seconds": UNSERVED_SECONDS})
    for tenant, namespace, queue, program, version, count in rows:
        logger.warning(
            "due work that no open session serves tenant=%s namespace=%s queue=%s program=%s version=%s count=%s",
            tenant,
            namespace,
            queue,
            program,
            version,
            count,
        )
    return [(queue, f"{program} {version}") for _, _, queue, program, version, _ in rows]
