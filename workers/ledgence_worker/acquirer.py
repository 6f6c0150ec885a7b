"""The acquirer: asks the task service for work whenever slots are free, on its own thread and channel."""

import logging

from ledgence_worker.channel import Channel, Reply
from ledgence_worker.errors import Busy, Unavailable
from ledgence_worker.patience import Patience
from ledgence_worker.shared import Shared

logger = logging.getLogger("ledgence_worker.acquirer")

#: A draining worker looks for the end this often, so the service must not hold its requests longer.
DRAIN_WAIT_SECONDS = 1.0


def admit(reply: Reply, shared: Shared) -> None:
    """Take charge of a reply's assignments, whose slots are occupied already, and hand them to the main loop."""
    for task_id, number in reply.acquired.lost:
        # Only a replay has them: the lease ended before the reply arrived, so the attempt never ran here.
        logger.warning("attempt lost before it started task=%s attempt=%s", task_id, number)
    if reply.acquired.assignments:
        shared.inbox.grant(shared.keeper.hold(reply.acquired.assignments, reply.since))


class Acquirer:
    """Reserves every free slot, asks for as much work, and waits where none is due. Ends when the slots are closed."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.channel = Channel(shared, number=0)
        # A worker that only empties its queues does not wait for more before it has seen them empty.
        self._first_wait_seconds = 0.0 if shared.settings.drain else shared.settings.acquire_wait_seconds
        self._wait_seconds = self._first_wait_seconds
        # Empty replies that come at once (no wait allowed, or cut short) must not make a hot loop.
        self._idle = Patience(shared.clock, shared.stopping.draining, ceiling=1.0)

    def run(self) -> None:
        while capacity := self._shared.slots.reserve():
            self.step(capacity)

    def step(self, capacity: int) -> None:
        """Ask once for the reserved slots."""
        shared = self._shared
        if shared.stopping.is_requested:
            shared.slots.occupy(asked=capacity, taken=0)
            shared.stopping.draining.wait()
            return
        asked_at = shared.clock.monotonic()
        reply = self.channel.ask(capacity=capacity, wait_seconds=self._wait_seconds)
        shared.slots.occupy(asked=capacity, taken=len(reply.acquired.assignments))
        admit(reply, shared)
        if reply.acquired.assignments:
            self._idle.reset()
            self._wait_seconds = self._first_wait_seconds
        else:
            self._rest(asked_at)

    def _rest(self, asked_at: float) -> None:
        shared = self._shared
        if shared.settings.drain:
            if shared.slots.occupied == 0 and self._is_drained():
                shared.stopping.request("drained")
            self._wait_seconds = min(DRAIN_WAIT_SECONDS, shared.settings.acquire_wait_seconds)
        if shared.clock.monotonic() - asked_at < DRAIN_WAIT_SECONDS / 2:
            self._idle.pause()
        else:
            self._idle.reset()

    def _is_drained(self) -> bool:
        try:
            return self._shared.service.is_drained(self._shared.session.session_id)
        except (Busy, Unavailable) as error:
            logger.warning("whether work is left is unknown error=%s", error)
            return False
