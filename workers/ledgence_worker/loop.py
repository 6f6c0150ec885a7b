"""The main loop: starts granted attempts, stops those whose authority or time is over, and passes on what ended."""

import logging
from collections import deque
from collections.abc import Sequence

from ledgence_worker.authority import AttemptKey, Authority
from ledgence_worker.ends import End, EndQueue
from ledgence_worker.inbox import StopOrder
from ledgence_worker.pool import Ended, Pool, StopReason
from ledgence_worker.protocol import Outcome, Settlement
from ledgence_worker.shared import Shared

logger = logging.getLogger("ledgence_worker.loop")

#: The longest turn, so that a living loop is seen to live. It also bounds how long a signal stays unseen that arrives
#: just before the wait.
TURN_SECONDS = 1.0
#: Ends that people should see without asking for them.
TROUBLE = frozenset({Outcome.FAILED, Outcome.CRASHED, Outcome.TIMED_OUT})


class Loop:
    """Owns the pool. Every method belongs to the main thread; others reach it through the inbox."""

    def __init__(self, shared: Shared, pool: Pool, ends: EndQueue) -> None:
        self._shared = shared
        self._pool = pool
        self._ends = ends
        self._pending: deque[Authority] = deque()
        self._running: dict[AttemptKey, Authority] = {}
        self._is_verbose = logger.isEnabledFor(logging.DEBUG)
        #: When the loop last turned, for the health page.
        self.turned_at = shared.clock.monotonic()

    @property
    def is_empty(self) -> bool:
        """Whether nothing runs and nothing waits for a process."""
        return not self._running and not self._pending

    def turn(self) -> None:
        """Wait for something to happen, for a second at most, and do all that follows from it."""
        shared = self._shared
        ended = self._pool.poll(self._timeout())
        now = self.turned_at = shared.clock.monotonic()
        if ended:
            self._collect(ended)
        for order in shared.inbox.take_stops():
            self._stop(order)
        self._pending.extend(shared.inbox.take_granted())
        if now >= shared.keeper.earliest_end:
            for authority in shared.keeper.overdue(now):
                self._stop(StopOrder(authority=authority, reason=StopReason.AUTHORITY_LOST))
        if self._pending:
            self._start()
        if shared.slots.quarantined:
            self._recover()

    def stop_all(self) -> None:
        """Stop every running attempt: the grace is over, and what ends unfinished is given back."""
        for task_id, number in self._running:
            self._pool.stop(task_id, number, StopReason.DRAIN)

    def take_waiting(self) -> list[Authority]:
        """Return what was granted and has not been started, and forget it."""
        waiting = [*self._pending, *self._shared.inbox.take_granted()]
        self._pending.clear()
        return waiting

    def _timeout(self) -> float:
        shared = self._shared
        next_at = min(shared.keeper.earliest_end, shared.stopping.next_change_at)
        return max(0.0, min(TURN_SECONDS, next_at - shared.clock.monotonic()))

    def _collect(self, ended: Sequence[Ended]) -> None:
        ends: list[End] = []
        abandoned: list[End] = []
        for one in ended:
            authority = self._running.pop((one.task_id, one.number), None)
            if authority is None:
                logger.error("end of an unknown attempt task=%s attempt=%s", one.task_id, one.number)
                continue
            if one.outcome in TROUBLE or self._is_verbose:
                _log_end(one)
            end = _end_of(authority, one)
            # Work is given back only when nothing of it can still run; otherwise its lease has to expire first.
            (ends if end.settlement is not None or end.is_confirmed else abandoned).append(end)
        if ends:
            self._ends.put(ends, is_last=self.is_empty)
        if abandoned:
            self._shared.abandon(abandoned, "its process is not confirmed gone")

    def _start(self) -> None:
        """Start what waits while processes are free, and give back what must not start any more."""
        returned: list[End] = []
        is_stopping = self._shared.stopping.is_requested
        while self._pending:
            authority = self._pending[0]
            if is_stopping or authority.is_over or authority.is_cancelled:
                returned.append(End(authority=authority, settlement=None))
            elif self._pool.free > 0:
                self._running[authority.key] = authority
                self._pool.start(authority.assignment, deadline=authority.times_out_at)
                if self._is_verbose:
                    logger.debug("attempt started task=%s attempt=%s", *authority.key)
            else:
                break
            self._pending.popleft()
        if returned:
            logger.info("attempts given back before they started count=%s", len(returned))
            self._ends.put(returned, is_last=self.is_empty)

    def _stop(self, order: StopOrder) -> None:
        authority = order.authority
        # One that waits for a process is given back when its turn comes; one that has ended is past stopping.
        if self._running.get(authority.key) is authority:
            logger.warning("stopping attempt task=%s attempt=%s reason=%s", *authority.key, order.reason)
            self._pool.stop(*authority.key, order.reason)

    def _recover(self) -> None:
        """Free the quarantined slots whose processes the pool has seen go after all."""
        slots = self._shared.slots
        unavailable = slots.count - self._pool.free - len(self._running)
        if (gone := slots.quarantined - max(0, unavailable)) > 0:
            logger.info("quarantined processes are gone count=%s", gone)
            slots.recover(gone)


def _log_end(one: Ended) -> None:
    # The exception's class and not its message, which may quote data.
    classes = one.report.error.classes[:1] if one.report.error else ()
    level = logging.WARNING if one.outcome in TROUBLE else logging.DEBUG
    text = "attempt ended task=%s attempt=%s outcome=%s error=%s"
    logger.log(level, text, one.task_id, one.number, one.outcome, "".join(classes) or None)


def _end_of(authority: Authority, ended: Ended) -> End:
    if ended.outcome is Outcome.INTERRUPTED and not (ended.confirmed and ended.report.error):
        return End(authority=authority, settlement=None, is_confirmed=ended.confirmed)
    # Work that is given back with an error, which people should see, is settled as interrupted: the same, and a report.
    settlement = Settlement(
        task_id=ended.task_id,
        number=ended.number,
        token=authority.assignment.token,
        outcome=ended.outcome,
        result=ended.result,
        report=ended.report,
    )
    return End(authority=authority, settlement=settlement, is_confirmed=ended.confirmed)
