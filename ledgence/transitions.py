"""How an operation runs: one short transaction, with a bounded wait for locks, and races told as Busy."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from django.db import OperationalError, connections, transaction

from ledgence import sql
from ledgence.conf import get_settings
from ledgence_worker.errors import Busy

# lock_not_available, deadlock_detected, serialization_failure: somebody else won, nothing was decided.
RACES = {"55P03", "40P01", "40001"}


def sqlstate(error: BaseException) -> str | None:
    """Return the SQLSTATE that PostgreSQL gave for a Django database error, if it gave one."""
    return getattr(error.__cause__, "sqlstate", None)


@contextmanager
def transition(using: str, *, what: str, batched: bool = False) -> Iterator[None]:
    """Run a block atomically; inside a caller's transaction, behind a savepoint.

    Waits for each lock at most LOCK_TIMEOUT_SECONDS. ``batched`` lets the statements that the block sends (sql.send)
    travel together on a worker's connection. Raises Busy when a lock was not free or a race was lost:
    nothing of the block stands, and the caller's transaction is still usable.
    """
    # Without autocommit the caller has a transaction too, though no atomic block says so.
    nested = connections[using].in_atomic_block or not connections[using].get_autocommit()
    try:
        with transaction.atomic(using=using), sql.batched(using) if batched else nullcontext():
            previous = sql.run("read_lock_timeout", using)[0][0] if nested else None
            if not getattr(connections[using], "has_lock_timeout", False):
                set_lock_timeout(using, lock_timeout())
            yield
            if previous is not None:
                set_lock_timeout(using, previous)
    except OperationalError as error:
        if sqlstate(error) in RACES:
            raise Busy(
                f"{what}: another transaction holds a row that it needs; nothing was written. Repeat it."
            ) from error
        raise


def lock_timeout() -> str:
    """Return LOCK_TIMEOUT_SECONDS as PostgreSQL takes it; 0 would mean for ever."""
    return f"{max(1, int(get_settings().lock_timeout_seconds * 1000))}ms"


def set_lock_timeout(using: str, value: str) -> None:
    sql.run("set_lock_timeout", using, {"value": value})
