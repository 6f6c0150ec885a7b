"""Local authority: until when each attempt may run here, and what replies about its lease do to that moment.

The bound is counted on the monotonic clock from before a request was sent, less a margin, so it ends before the lease
does, whatever the network and the clocks of other machines do. Once over it stays over: a late reply revives nothing.
"""

import logging
import math
import threading
from collections.abc import Iterable, Sequence

from ledgence_worker.authority import AttemptKey, Authority
from ledgence_worker.clock import Clock
from ledgence_worker.inbox import Inbox
from ledgence_worker.pool import StopReason
from ledgence_worker.protocol import Assignment, Renewal, RenewStatus

logger = logging.getLogger("ledgence_worker.lease")


def margin_seconds(lease_seconds: float) -> float:
    """Return how long before the lease's end user code is stopped: min(5 s, L/6)."""
    return min(5.0, lease_seconds / 6)


def stop_seconds(cleanup_seconds: float) -> float:
    """Return how long after SIGTERM a program is killed, at most: clean-up / 3.

    An attempt keeps its lease for the clean-up allowance. Less what a renewal may take to tell of a cancellation, that
    is what a program has, or its end would come too late to be accepted.
    """
    return cleanup_seconds / 3


class LeaseKeeper:
    """Every attempt between its assignment and the acceptance of its end. Each method is one short critical section."""

    def __init__(self, lease_seconds: float, inbox: Inbox, clock: Clock) -> None:
        self._margin = margin_seconds(lease_seconds)
        self._inbox = inbox
        self._clock = clock
        self._held: dict[AttemptKey, Authority] = {}
        self._lock = threading.Lock()
        #: No authority ends before this moment: all that the main loop must look at in most of its turns.
        self.earliest_end = math.inf

    def hold(self, assignments: Sequence[Assignment], since: float) -> list[Authority]:
        """Take charge of new assignments and return their authorities, some of which may be over on arrival.

        ``since`` is when the request was sent plus how long the service held it: the grant cannot be older. An attempt
        that is held already is left out, so that none is ever started twice.
        """
        now = self._clock.monotonic()
        taken: list[Authority] = []
        with self._lock:
            for assignment in assignments:
                key = (assignment.task_id, assignment.number)
                if key in self._held:
                    logger.error("attempt assigned twice task=%s attempt=%s", *key)
                    continue
                ends_at = since + assignment.remaining_seconds - self._margin
                timeout = assignment.timeout_seconds
                times_out_at = None if timeout is None else since + timeout
                authority = Authority(assignment, key, ends_at, times_out_at, is_over=ends_at <= now)
                self._held[key] = authority
                self.earliest_end = min(self.earliest_end, ends_at)
                taken.append(authority)
        return taken

    def forget(self, authorities: Iterable[Authority]) -> None:
        """Let go of attempts whose end was accepted or that are left to expire."""
        with self._lock:
            for authority in authorities:
                self._held.pop(authority.key, None)

    def overdue(self, now: float) -> list[Authority]:
        """Return the authorities that ended since the last call and mark them as over for good."""
        with self._lock:
            live = [authority for authority in self._held.values() if not authority.is_over]
            over = [authority for authority in live if authority.ends_at <= now]
            for authority in over:
                authority.is_over = True
            self.earliest_end = min((one.ends_at for one in live if not one.is_over), default=math.inf)
        return over

    def renewable(self) -> list[Authority]:
        """Return what is to be renewed: also attempts that have ended here, until that is accepted."""
        with self._lock:
            return [authority for authority in self._held.values() if not authority.is_over]

    def still_held(self, authorities: Iterable[Authority]) -> list[Authority]:
        """Return those of the authorities that are still to be renewed."""
        with self._lock:
            return [one for one in authorities if not one.is_over and self._held.get(one.key) is one]

    def apply(self, asked: Sequence[Authority], renewals: Sequence[Renewal], requested_at: float) -> list[Authority]:
        """Move the bounds as the replies say, order stops, and return those without a decision."""
        answers = {(renewal.task_id, renewal.number): renewal for renewal in renewals}
        now = self._clock.monotonic()
        undecided: list[Authority] = []
        with self._lock:
            for authority in asked:
                if authority.is_over or self._held.get(authority.key) is not authority:
                    continue
                answer = answers.get(authority.key)
                if answer is None or answer.status is RenewStatus.BUSY:
                    undecided.append(authority)
                else:
                    self._decide(authority, answer, requested_at, now)
        return undecided

    def _decide(self, authority: Authority, answer: Renewal, requested_at: float, now: float) -> None:
        if answer.status is RenewStatus.RENEWED and now < authority.ends_at:
            # The newest reply counts even when it is shorter: a cancel request shortens the lease.
            authority.ends_at = requested_at + answer.remaining_seconds - self._margin
            self.earliest_end = min(self.earliest_end, authority.ends_at)
            if answer.cancel_requested and not authority.is_cancelled:
                authority.is_cancelled = True
                self._inbox.stop(authority, StopReason.CANCEL)
            return
        # Refused, or granted in a reply that came after the local bound: in both cases the program must stop.
        authority.is_over = True
        self._inbox.stop(authority, StopReason.AUTHORITY_LOST)
