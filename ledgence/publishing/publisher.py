"""The publisher of one queue: leases what is due, lets it be sent, and records what became of it."""

import logging
import math
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import batched
from queue import Empty, SimpleQueue

from ledgence.calls import calling
from ledgence.operations.publish import LeasedPublication, Publications, RoutedQueue, SendResult
from ledgence.publishing.outage import FIRST_SECONDS, LONGEST_SECONDS, Outage
from ledgence.publishing.row import PublisherRow
from ledgence.publishing.senders import Batch, Senders, Sent
from ledgence.worker_connections import Connections
from ledgence_worker.clock import SystemClock
from ledgence_worker.delivery.ports import DispatchPublisher, PublishStatus
from ledgence_worker.errors import InvalidInput, LedgenceError
from ledgence_worker.patience import Patience

logger = logging.getLogger("ledgence.publishing")

#: How many publications are leased at a time, and how many may still wait to be sent when more are leased.
LEASE_MAX = 100
#: What was not begun so long after it was leased is not sent: the lease has to outlast the sending.
BEGIN_SECONDS = 25.0
#: Results are recorded together: so long after the first of them, or when no more are to come.
GATHER_SECONDS = 0.02
#: What could not be recorded, since somebody else holds it, is tried again after so long.
HELD_SECONDS = 0.1
#: The look behind the hints, with jitter so that processes do not ask in step.
POLL_SECONDS = (0.8, 1.0)
#: A broker or a database that does not answer keeps a publisher that stops no longer than this.
END_SECONDS = 25.0
#: Without a turn for so long the thread is stuck: it takes at most a connection's and a few statements' time-outs.
TURN_SECONDS_MAX = 120.0
#: Without an answer of the database for so long nothing is published.
SILENCE_SECONDS_MAX = 30.0


class QueuePublisher:
    """Publishes one routed queue on the thread that calls run(), with senders beside it.

    The thread leases and records while the senders send, so neither waits for the other. Any number of publishers may
    serve one queue: each skips what another holds. With ``once`` it ends when nothing is due any more, or at the first
    failure.
    """

    def __init__(
        self, queue: RoutedQueue, broker: DispatchPublisher, connections: Connections, *, once: bool = False
    ) -> None:
        self.queue = queue
        self._broker = broker
        self._connections = connections
        self._once = once
        self._row = PublisherRow(queue, using=connections.using)
        self._publications = Publications(queue, using=connections.using)
        self._news: SimpleQueue[Sent | None] = SimpleQueue()
        self._is_hinted = False
        self._senders = Senders(queue, broker, self._news.put)
        self._outage = Outage(queue.name)
        self._is_probing = False
        self._results: list[SendResult] = []
        self._outstanding = 0
        # When to look for what is due, and to record what was sent.
        self._look_at = self._record_at = 0.0
        self._patience = Patience(SystemClock(), threading.Event(), first=FIRST_SECONDS, ceiling=LONGEST_SECONDS)
        self._database_at = 0.0
        self._stop_at = math.inf
        self._looped_at = self._turned_at = self._answered_at = time.monotonic()
        self.confirmed = 0
        #: Whether anything was sent, or was to be sent, and not confirmed.
        self.has_failed = False

    def hint(self) -> None:
        """Look for due publications now. Called from any thread."""
        if not self._is_hinted:
            self._is_hinted = True
            self._news.put(None)

    def stop(self) -> None:
        """Lease nothing more, and end when what is being sent is recorded. Called from any thread."""
        self._stop_at = min(self._stop_at, time.monotonic())
        self._senders.halted.set()
        self._news.put(None)

    def run(self) -> None:
        """Publish until stop()."""
        while not self._is_over():
            self._collect(max(0.0, self._next_at() - time.monotonic()))
            self._looped_at = time.monotonic()
            if self._looped_at >= self._database_at:
                self._try_turn()
        self._end()

    def _is_over(self) -> bool:
        if self._outstanding or self._results:
            return time.monotonic() >= self._stop_at + END_SECONDS
        return self._stop_at < math.inf

    def _next_at(self) -> float:
        """Return when something is to be done, though nobody says anything."""
        next_at = min(self._row.due_at, self._lease_at(), self._record_by())
        return min(max(next_at, self._database_at), self._stop_at + END_SECONDS)

    def _lease_at(self) -> float:
        """Return when more may be leased: in an outage one batch now and then, else while the senders have little."""
        if self._stop_at < math.inf:
            return math.inf
        if self._outage.is_on:
            return math.inf if self._outstanding or self._is_probing else max(self._look_at, self._outage.probe_at)
        return self._look_at if self._outstanding <= LEASE_MAX else math.inf

    def _record_by(self) -> float:
        return self._record_at if self._results else math.inf

    def _collect(self, timeout: float) -> None:
        """Wait for news, and take in all there are."""
        try:
            news = self._news.get(timeout=timeout) if timeout else self._news.get_nowait()
            while True:
                if news is None:
                    # Before the look: what comes during it is a hint of its own.
                    self._is_hinted = False
                    self._look_at = 0.0
                else:
                    self._take(news)
                news = self._news.get_nowait()
        except Empty:
            pass

    def _take(self, sent: Sent) -> None:
        now = time.monotonic()
        if sent.results:
            self._outstanding -= len(sent.results)
            record_at = now + GATHER_SECONDS if self._outstanding else now
            self._record_at = min(record_at, self._record_at) if self._results else record_at
            self._results += sent.results
        confirmed = sum(result.status is PublishStatus.CONFIRMED for result in sent.results)
        self.confirmed += confirmed
        self.has_failed |= confirmed < len(sent.results) or sent.is_answered is False
        # In an outage only the probe counts: what was sent before it began says nothing new.
        counts = self._is_probing or not self._outage.is_on
        self._is_probing = False
        if sent.is_answered:
            self._answered_at = now
            if counts:
                self._outage.note_answer()
        elif sent.is_answered is False and counts:
            self._outage.note_failure(sent.failure)
            if self._once:
                self.stop()

    def _try_turn(self) -> None:
        try:
            with calling(self._connections, "publisher"):
                self._turn()
        except InvalidInput:
            # The database has no such character: the rest is worth recording.
            self._results = [replace(result, detail="") for result in self._results]
            self._fail("a detail could not be recorded")
        except LedgenceError as error:
            self._fail(str(error))
        except Exception:
            # Nobody watches this thread. What it could not record is sent again when its lease ends.
            logger.exception("publishing failed queue=%s", self.queue.name)
            self._results.clear()
            self._fail("unforeseen")
        else:
            self._patience.reset()
            self._turned_at = time.monotonic()

    def _fail(self, failure: str) -> None:
        logger.warning("publishing interrupted queue=%s error=%s", self.queue.name, failure)
        self._database_at = time.monotonic() + self._patience.next_seconds()
        self.has_failed = True
        if self._once:
            self.stop()

    def _turn(self) -> None:
        """Renew the row, record results and lease more, each when it is time."""
        now = time.monotonic()
        if now >= self._row.due_at:
            self._row.renew(answered_at=self._answered_at, failure=self._outage.failure)
        is_probe = self._outage.is_on
        limit = 0
        if now >= self._lease_at():
            limit = self._broker.batch_max if is_probe else max(LEASE_MAX, self._broker.batch_max)
        results = self._results if limit or now >= self._record_by() else []
        if not limit and not results:
            return
        turn = self._publications.turn(results, limit)
        if results:
            self._results = list(turn.held)
            self._record_at = now + HELD_SECONDS
        if limit:
            self._send(turn.leased, now + BEGIN_SECONDS, is_probe=is_probe)
            self._plan_look(is_full=len(turn.leased) == limit)

    def _send(self, leased: Sequence[LeasedPublication], begin_until: float, *, is_probe: bool) -> None:
        self._outstanding += len(leased)
        if is_probe:
            self._is_probing = True
            self._senders.halted.clear()
            self._senders.send(Batch(leased=leased, begin_until=begin_until))
            return
        for batch in batched(leased, self._broker.batch_max):
            self._senders.send(Batch(leased=batch, begin_until=begin_until))

    def _plan_look(self, *, is_full: bool) -> None:
        """Decide when to look again: at once where there may be more."""
        if is_full:
            self._look_at = 0.0
        elif self._once:
            self._stop_at = min(self._stop_at, time.monotonic())
        else:
            poll = random.uniform(*POLL_SECONDS)  # noqa: S311 - jitter is no secret
            left = self._publications.seconds_to_next(poll)
            self._look_at = time.monotonic() + (poll if left is None else max(0.0, left))

    def _end(self) -> None:
        if self._outstanding or self._results:
            self.has_failed = True
            logger.error("publisher ends before all was recorded queue=%s", self.queue.name)
        if not self._senders.close(0.0 if self._outstanding else END_SECONDS):
            logger.error("the broker does not answer, its calls are abandoned queue=%s", self.queue.name)
        try:
            with calling(self._connections, "publisher"):
                self._row.delete()
        except Exception as error:
            logger.warning("publisher could not say that it ends queue=%s error=%s", self.queue.name, error)
        logger.info("publisher ended queue=%s confirmed=%s", self.queue.name, self.confirmed)

    def live_problems(self) -> list[str]:
        """Return why the process should be restarted; empty while the thread turns."""
        silence = time.monotonic() - self._looped_at
        if silence <= TURN_SECONDS_MAX:
            return []
        return [f"the publisher has not turned for {silence:.0f} s, queue {self.queue.name}"]

    def ready_problems(self) -> list[str]:
        """Return why the queue's work is not published; empty while it is."""
        problems = []
        if self._outage.is_confirmed:
            problems.append(f"the broker does not answer, queue {self.queue.name}: {self._outage.failure}")
        if not self._row.is_routed:
            problems.append(f"the route is gone, queue {self.queue.name} to {self.queue.destination}")
        silence = time.monotonic() - self._turned_at
        if silence > SILENCE_SECONDS_MAX:
            problems.append(f"the publisher has had no success for {silence:.0f} s, queue {self.queue.name}")
        return problems
