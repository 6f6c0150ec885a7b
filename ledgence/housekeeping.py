"""Housekeeping: what must happen though nobody asks for it. Runs in workers with a database and in ledgence_recover."""

import logging
import threading
import time

from django.db import Error

from ledgence import sql
from ledgence.conf import get_settings
from ledgence.operations.expire import expire, seconds_to_next_expiry
from ledgence.operators_work import OperatorsWork
from ledgence.rollups import prune_rollups, rollups
from ledgence.watch import warn_of_old_snapshots, warn_of_unpublished_queues, warn_of_unserved_work
from ledgence.worker_connections import WorkerConnections
from ledgence_worker.errors import Busy

logger = logging.getLogger("ledgence.housekeeping")

PERIOD_SECONDS = 5.0
SHORTEST_SECONDS = 0.05
FAILURE_SECONDS = 1.0
WATCH_SECONDS = 60.0
#: A turn takes at most a connection's and a few statements' time-outs.
TURN_SECONDS_MAX = 120.0
#: How often one process records that it has turned, and all of them together.
RECORD_SECONDS = 10.0
REST_SECONDS = 5.0
#: Without a turn for so long, leases that are over are not being ended.
SILENCE_SECONDS_MAX = 90.0


def record_turn(*, using: str) -> None:
    """Record, for the task service, that what had expired was ended, but for what somebody holds."""
    sql.run("record_housekeeping", using, {"rest_seconds": REST_SECONDS})


def seconds_since_turn(*, using: str) -> float | None:
    """Return how long ago any process has recorded a turn, or None if none ever has."""
    rows = sql.run("find_housekeeping", using)
    return rows[0][0] if rows else None


class Housekeeping:
    """Ends expired leases, as soon as the next one expires and at least every five seconds; does what operators left
    to it; writes down what this process has counted; warns of old snapshots, of work that nobody serves and of queues
    that nobody publishes.

    Any number of processes may run it: each skips the rows that another holds.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._connections = WorkerConnections(using)
        self._operators_work = OperatorsWork(using)
        self._stop = threading.Event()
        self._watch_at = time.monotonic() + WATCH_SECONDS
        self._thread: threading.Thread | None = None
        self._turned_at = time.monotonic()
        self._record_at = 0.0
        self._succeeded_at: float | None = None

    def start(self) -> None:
        """Run on a thread of its own until close()."""
        self._thread = threading.Thread(target=self.run, name="ledgence-housekeeping", daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Run until stop(). A failure is logged and tried again with the next turn."""
        wait = 0.0
        tries = 1
        while not self._stop.wait(wait):
            try:
                wait = self.turn()
                tries = 1
                self._succeeded_at = time.monotonic()
            except (Error, Busy) as error:
                # The first time, then ever more rarely: an outage must be seen, and must not fill the disk.
                if tries & (tries - 1) == 0:
                    logger.warning("housekeeping failed, trying again tries=%s error=%s", tries, error)
                tries += 1
                wait = self._start_anew()
            except Exception:
                # Nobody watches this thread: it must not die of what was not foreseen.
                logger.exception("housekeeping failed, trying again")
                wait = self._start_anew()
            self._turned_at = time.monotonic()
        rollups(self._using).write(unfinished=True)
        self._connections.close()

    def _start_anew(self) -> float:
        """Let the next turn begin with a new connection, and return how long to wait for it."""
        self._connections.use("housekeeping").close()
        return FAILURE_SECONDS

    def turn(self) -> float:
        """Do what is due and return the seconds until the next turn."""
        self._connections.use("housekeeping")
        if time.monotonic() >= self._watch_at:
            self._watch_at = time.monotonic() + WATCH_SECONDS
            warn_of_old_snapshots(self._using)
            warn_of_unserved_work(self._using)
            warn_of_unpublished_queues(self._using)
            prune_rollups(using=self._using)
        wait = self._end_expired()
        if time.monotonic() >= self._record_at:
            record_turn(using=self._using)
            self._record_at = time.monotonic() + RECORD_SECONDS
        rollups(self._using).write()
        return SHORTEST_SECONDS if self._operators_work.turn() else wait

    def _end_expired(self) -> float:
        """End what has expired, and return the seconds until there may be more."""
        left = seconds_to_next_expiry(using=self._using)
        if left is not None and left <= 0:
            if ended := expire(using=self._using):
                logger.info("leases expired count=%s", ended)
            left = seconds_to_next_expiry(using=self._using)
            if left is not None and left <= 0:
                # Held by somebody, or refused by the database: asking twenty times a second would not help.
                return FAILURE_SECONDS
        period = min(PERIOD_SECONDS, get_settings().lease_seconds / 2)
        return period if left is None else max(SHORTEST_SECONDS, min(period, left + 0.001))

    def live_problems(self) -> list[str]:
        """Return why the process should be restarted; empty while it turns."""
        silence = time.monotonic() - self._turned_at
        return [f"housekeeping has not turned for {silence:.0f} s"] if silence > TURN_SECONDS_MAX else []

    def ready_problems(self) -> list[str]:
        """Return why leases that are over are not ended; empty while they are."""
        if self._succeeded_at is None:
            return ["housekeeping has not succeeded yet"]
        silence = time.monotonic() - self._succeeded_at
        return [f"housekeeping has not succeeded for {silence:.0f} s"] if silence > SILENCE_SECONDS_MAX else []

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join(timeout=PERIOD_SECONDS)
