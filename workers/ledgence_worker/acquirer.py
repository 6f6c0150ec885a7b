"""The acquirer: asks the task service for work whenever slots are free, on its own thread and channel."""

import logging
from typing import Final

from ledgence_worker.admission import admit
from ledgence_worker.channel import Channel
from ledgence_worker.drained import DRAIN_WAIT_SECONDS, stop_if_drained
from ledgence_worker.errors import ExternalDispatchRequired
from ledgence_worker.patience import Patience
from ledgence_worker.shared import Shared
from ledgence_worker.sharing import Share

logger = logging.getLogger("ledgence_worker.acquirer")

#: How long nothing is asked for while every queue's work comes through a broker.
EXTERNAL_PAUSE_SECONDS: Final = 60.0


class Acquirer:
    """Reserves its share of the free slots, asks for as much work, and waits where none is due.

    Ends when the slots are closed.
    """

    def __init__(self, shared: Shared, *, sources: int = 1) -> None:
        self._shared = shared
        self._share = Share(shared.slots, sources)
        self._is_alone = sources == 1
        self.channel = Channel(shared, number=0)
        # A worker that only empties its queues does not wait for more before it has seen them empty.
        self._first_wait_seconds = 0.0 if shared.settings.drain else shared.settings.acquire_wait_seconds
        self._wait_seconds = self._first_wait_seconds
        # Empty replies that come at once (no wait allowed, or cut short) must not make a hot loop.
        self._idle = Patience(shared.clock, shared.stopping.draining, ceiling=1.0)

    def run(self) -> None:
        while capacity := self._share.reserve():
            self.step(capacity)

    def step(self, capacity: int) -> None:
        """Ask once for the reserved slots."""
        shared = self._shared
        if shared.stopping.is_requested:
            shared.slots.occupy(asked=capacity, taken=0)
            shared.stopping.draining.wait()
            return
        asked_at = shared.clock.monotonic()
        try:
            reply = self.channel.ask(capacity=capacity, wait_seconds=self._share.wait_seconds(self._wait_seconds))
        except ExternalDispatchRequired as error:
            shared.slots.occupy(asked=capacity, taken=0)
            if self._is_alone:
                raise
            # As with a token for such queues alone. The brokers' work goes on, and a queue may be given back.
            logger.info("nothing to acquire error=%s", error)
            shared.clock.wait(shared.stopping.draining, EXTERNAL_PAUSE_SECONDS)
            return
        shared.slots.occupy(asked=capacity, taken=len(reply.answer.assignments))
        self._share.note(asked=capacity, came=len(reply.answer.assignments))
        admit(reply, shared)
        if reply.answer.assignments:
            self._idle.reset()
            self._wait_seconds = self._first_wait_seconds
        else:
            self._rest(asked_at)

    def _rest(self, asked_at: float) -> None:
        shared = self._shared
        stop_if_drained(shared)
        if shared.settings.drain:
            self._wait_seconds = min(DRAIN_WAIT_SECONDS, shared.settings.acquire_wait_seconds)
        if shared.clock.monotonic() - asked_at < DRAIN_WAIT_SECONDS / 2:
            self._idle.pause()
        else:
            self._idle.reset()
