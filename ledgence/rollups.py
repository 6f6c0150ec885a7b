"""Counts what is claimed and ended, in the memory of the process that does it, and writes them down by the minute.

The hot path pays for a few additions after its commit. Counts that a process had not written when it was killed are
lost: charts are drawn from them, nothing is decided.
"""

import logging
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import partial

from django.db import Error, transaction

from ledgence import sql
from ledgence.models.rollup import WAIT_BOUNDS

logger = logging.getLogger("ledgence.rollups")

#: Where no housekeeping writes them, whoever counts does, when they are so many minutes old.
LEFT_MINUTES = 2
#: A day, and the hour in which its charts begin.
KEPT_SECONDS = 25 * 3600.0
PRUNED_MAX = 10_000

#: Where each consequence of an attempt's end is counted.
COLUMNS = {"succeeded": "succeeded", "failed": "failed", "cancelled": "cancelled", "retry": "retried"}


@dataclass(slots=True)
class Tally:
    """The counts of one queue in one minute, by the names of their columns."""

    claimed: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    waits: list[int] = field(default_factory=lambda: [0] * (len(WAIT_BOUNDS) + 1))


class Rollups:
    """The counts of one process for one database, by minute of its own clock and queue. Safe from any thread."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._lock = threading.Lock()
        # Held by the one thread that writes.
        self._writing = threading.Lock()
        self._tallies: dict[int, dict[int, Tally]] = {}

    def count_claims(self, claims: Iterable[tuple[int, float]]) -> None:
        """Count claims, each as (queue, seconds for which it had been due)."""
        counts = Counter([(queue, bisect_left(WAIT_BOUNDS, seconds)) for queue, seconds in claims])
        with self._lock:
            tallies = self._tallies.setdefault(_minute(), {})
            for (queue, place), count in counts.items():
                tally = tallies.setdefault(queue, Tally())
                tally.claimed += count
                tally.waits[place] += count
        self._write_what_is_left()

    def count_ends(self, ends: Iterable[tuple[int, str]]) -> None:
        """Count ends of attempts, each as (queue, consequence): the task's outcome, or "retry"."""
        counts = Counter(ends)
        with self._lock:
            tallies = self._tallies.setdefault(_minute(), {})
            for (queue, consequence), count in counts.items():
                tally, column = tallies.setdefault(queue, Tally()), COLUMNS[consequence]
                setattr(tally, column, getattr(tally, column) + count)
        self._write_what_is_left()

    def write(self, *, unfinished: bool = False) -> None:
        """Insert the rows of the minutes that are over, or of the present one too. Where that fails they are lost."""
        if not self._writing.acquire(blocking=False):
            return
        try:
            with self._lock:
                now = time.monotonic()
                due = [minute for minute in self._tallies if unfinished or minute < _minute()]
                rows = [
                    # By the database's clock: how long ago the middle of the minute was.
                    (max(0.0, now - minute * 60 - 30), queue, tally)
                    for minute in due
                    for queue, tally in self._tallies.pop(minute).items()
                ]
            if rows:
                self._insert(rows)
        finally:
            self._writing.release()

    def _insert(self, rows: list[tuple[float, int, Tally]]) -> None:
        columns = {f.name: [getattr(tally, f.name) for _, _, tally in rows] for f in fields(Tally) if f.name != "waits"}
        columns["ages"] = [age for age, _, _ in rows]
        columns["queues"] = [queue for _, queue, _ in rows]
        columns["waits"] = ["{" + ",".join(map(str, tally.waits)) + "}" for _, _, tally in rows]
        try:
            sql.run("insert_rollups", self._using, columns)
        except Error as error:
            logger.warning("counts lost rows=%s error=%s", len(rows), error)

    def _write_what_is_left(self) -> None:
        with self._lock:
            is_left = min(self._tallies, default=_minute()) <= _minute() - LEFT_MINUTES
        if is_left:
            self.write()


def _minute() -> int:
    return int(time.monotonic() // 60)


_rollups: dict[str, Rollups] = {}


def rollups(using: str) -> Rollups:
    """Return this process's counts for a database."""
    return _rollups.setdefault(using, Rollups(using))


def count_claims(claims: list[tuple[int, float]], *, using: str) -> None:
    """Count claims when the transaction commits."""
    if claims:
        transaction.on_commit(partial(rollups(using).count_claims, claims), using=using, robust=True)


def count_ends(ends: list[tuple[int, str]], *, using: str) -> None:
    """Count ends of attempts when the transaction commits."""
    if ends:
        transaction.on_commit(partial(rollups(using).count_ends, ends), using=using, robust=True)


def prune_rollups(*, using: str) -> None:
    """Delete the counts of more than a day ago. Any number of processes may do it at once."""
    sql.run("prune_rollups", using, {"kept_seconds": KEPT_SECONDS, "limit": PRUNED_MAX})
