"""The renewals of all leases and of the session, on a thread that waits for nothing but the task service."""

import logging
import math
import random
import threading
from collections.abc import Sequence
from itertools import batched

from ledgence_worker.authority import Authority
from ledgence_worker.errors import Busy, Unavailable
from ledgence_worker.patience import Patience, note_outage
from ledgence_worker.routing import tell_unserved
from ledgence_worker.shared import Shared

logger = logging.getLogger("ledgence_worker.renewal")

RENEWAL_BATCH = 500
BUSY_PAUSE_SECONDS = 0.1
#: A session that could not be extended is tried again after this, or sooner if it is short.
EXTENSION_RETRY_SECONDS = 5.0
#: However many hints come, rounds are at least this far apart.
HINTED_ROUND_SECONDS = 0.1


class Renewer:
    """Renews every held lease each quarter of its length, undecided ones soon again, and extends the session as often:
    that is how the task service knows that an idle worker is alive, and how any worker hears that it is to drain.

    It goes on while the worker drains, until the last end is accepted. Raises SessionExpired: nothing is left to renew.
    ``stop`` ends it; wake() makes it look at once.
    """

    def __init__(self, shared: Shared, stop: threading.Event) -> None:
        self._shared = shared
        self._service = shared.service
        self._session = shared.session
        self._keeper = shared.keeper
        self._consumed = shared.consumed
        self._clock = shared.clock
        self._stop = stop
        self._woken = threading.Event()
        self._is_hinted = False
        self._patience = Patience(shared.clock, stop)
        self._tries = 0
        self._extension_tries = 0
        self._again: list[Authority] = []
        self._again_at = math.inf
        now = shared.clock.monotonic()
        self._last_round_at = now
        self._round_at = now + self._session.lease_seconds / 4
        self._extend_at = now + self._extension_seconds()
        #: When the task service last answered, for the health page.
        self.answered_at = now

    def run(self) -> None:
        while not self._stop.is_set():
            wait = self.turn()
            if self._clock.wait(self._woken, wait):
                self._woken.clear()

    def wake(self) -> None:
        """Make the next turn come at once. Safe from any thread."""
        self._woken.set()

    def renew_now(self) -> None:
        """Begin a round now: the task service hinted that an owner should hear something. Safe from any thread."""
        self._is_hinted = True
        self.wake()

    def turn(self) -> float:
        """Do what is due and return the seconds until something is due again."""
        now = self._clock.monotonic()
        if self._is_hinted:
            self._is_hinted = False
            self._round_at = min(self._round_at, self._last_round_at + HINTED_ROUND_SECONDS)
        if now >= self._round_at:
            self._last_round_at, self._round_at = now, now + self._session.lease_seconds / 4
            self._renew(self._keeper.renewable())
        elif now >= self._again_at:
            self._renew(self._keeper.still_held(self._again))
        # After the renewals, whose time it must not take.
        if now >= self._extend_at:
            self._extend(now)
        next_at = min(self._round_at, self._again_at, self._extend_at)
        return max(0.0, next_at - self._clock.monotonic())

    def _renew(self, authorities: Sequence[Authority]) -> None:
        self._again, self._again_at = [], math.inf
        for batch in batched(authorities, RENEWAL_BATCH):
            self._again += self._renew_batch(batch)

    def _renew_batch(self, batch: Sequence[Authority]) -> list[Authority]:
        """Renew one batch and return what is still undecided, to be asked again after a short pause."""
        requested_at = self._clock.monotonic()
        owners = [authority.assignment.owner for authority in batch]
        try:
            renewals = self._service.renew(self._session.session_id, owners)
        except (Unavailable, Busy) as error:
            self._tries += 1
            note_outage("renew", self._tries, error)
            self._again_at = self._clock.monotonic() + self._patience.next_seconds()
            return list(batch)
        self._tries = 0
        self._patience.reset()
        self.answered_at = self._clock.monotonic()
        undecided = self._keeper.apply(batch, renewals, requested_at)
        if undecided:
            pause = BUSY_PAUSE_SECONDS * random.uniform(0.5, 1.0)  # noqa: S311 - jitter is no secret
            self._again_at = min(self._again_at, self.answered_at + pause)
        return undecided

    def _extend(self, now: float) -> None:
        try:
            session = self._service.extend_session(self._session.session_id)
        except (Unavailable, Busy) as error:
            self._extension_tries += 1
            note_outage("extend", self._extension_tries, error)
            self._extend_at = now + min(EXTENSION_RETRY_SECONDS, self._session.remaining_seconds / 10)
            return
        self._extension_tries = 0
        # A queue that is routed while the worker runs goes quiet here, and nothing else would say why.
        tell_unserved(session.destinations.keys() - self._session.destinations.keys() - self._consumed)
        self._session = session
        # All that an idle worker hears of the task service where its work comes through a broker.
        self.answered_at = self._clock.monotonic()
        self._extend_at = now + self._extension_seconds()
        if self._session.drain_requested:
            self._shared.drain()

    def _extension_seconds(self) -> float:
        return min(self._session.lease_seconds / 4, self._session.remaining_seconds / 2)
