"""The receiver: takes messages of one queue from its broker whenever slots are free, on its own thread."""

import logging
from collections.abc import Sequence
from typing import Final

from ledgence_worker.claimer import Claimer
from ledgence_worker.consumed_queue import ConsumedQueue
from ledgence_worker.delivery.ports import Message
from ledgence_worker.drained import DRAIN_WAIT_SECONDS, stop_if_drained
from ledgence_worker.errors import BrokerRefused, LedgenceError
from ledgence_worker.limits import MESSAGES_MAX
from ledgence_worker.patience import BROKER, Patience, note_outage, note_recovery
from ledgence_worker.routing import check_destination, inspect_queue
from ledgence_worker.shared import Shared
from ledgence_worker.sharing import Share

logger = logging.getLogger("ledgence_worker.receiver")

#: How long free slots wait for occupied ones, so that one request fills them together: it costs as much for one message
#: as for ten. With short tasks on 16 slots that takes a third off what each costs worker and broker.
LINGER_SECONDS: Final = 0.01
#: How long a receive may take beside its wait before people should know.
SILENCE_SECONDS: Final = 30.0


class Receiver:
    """Reserves its share of the slots, receives as many messages, and lets its claimer work while the next ones come.

    Whatever the broker does, the receiver goes on, and holds no slots while the broker fails. A receive that is out
    when the worker stops is awaited, and what it brings is given back. Ends when the slots are closed.
    """

    def __init__(self, shared: Shared, queue: ConsumedQueue, claimer: Claimer, *, sources: int = 1) -> None:
        self._shared = shared
        self._queue = queue
        self._claimer = claimer
        most = min(queue.broker.batch_max, MESSAGES_MAX)
        self._share = Share(shared.slots, sources, most=most, linger_seconds=LINGER_SECONDS)
        wait = shared.settings.receive_wait_seconds
        self._wait_seconds = min(wait, DRAIN_WAIT_SECONDS) if shared.settings.drain else wait
        self._patience = Patience(shared.clock, shared.stopping.draining, first=0.1, ceiling=5.0)
        # Empty replies that come at once must not make a hot loop.
        self._idle = Patience(shared.clock, shared.stopping.draining, ceiling=1.0)
        self._tries = 0
        # What failed last; empty while the broker answers.
        self._told = ""
        # Since when the broker owes an answer; None while it owes none, or nothing is asked because no slot is free.
        self._unanswered_since: float | None = None
        self._is_asking = False

    def run(self) -> None:
        try:
            if not self._queue.address:
                self._await_broker()
            while capacity := self._share.reserve():
                self.step(capacity)
        finally:
            self._claimer.close()

    def _await_broker(self) -> None:
        """Look at the queue as at the worker's start, when its broker did not answer. Raises BrokerRefused."""
        self._begin_asking()
        while not self._shared.stopping.is_requested:
            try:
                address = inspect_queue(self._queue)
            except BrokerRefused:
                raise
            except Exception as error:
                self._fail(error)
            else:
                self._note_answer()
                check_destination(self._queue.name, address, self._shared.session)
                break
        self._is_asking = False

    def _begin_asking(self) -> None:
        if self._unanswered_since is None:
            self._unanswered_since = self._shared.clock.monotonic()
        self._is_asking = True

    def step(self, capacity: int) -> None:
        """Receive once for the reserved slots."""
        shared = self._shared
        if shared.stopping.is_requested:
            shared.slots.occupy(asked=capacity, taken=0)
            shared.stopping.draining.wait()
            return
        asked_at = shared.clock.monotonic()
        self._begin_asking()
        try:
            messages = self._queue.broker.receive(capacity, self._share.wait_seconds(self._wait_seconds))
        except Exception as error:
            shared.slots.occupy(asked=capacity, taken=0)
            self._share.note(asked=capacity, came=0)
            self._fail(error)
        else:
            self._note_answer()
            self._share.note(asked=capacity, came=len(messages))
            self._hand_over(messages, capacity)
            if not messages:
                self._rest(asked_at)
        self._is_asking = False

    @property
    def silence(self) -> str:
        """For how long the broker has not answered, and what failed last; empty while that is no longer than it may."""
        since, told = self._unanswered_since, self._told
        seconds = 0.0 if since is None or not self._is_asking else self._shared.clock.monotonic() - since
        if seconds <= self._shared.settings.receive_wait_seconds + SILENCE_SECONDS:
            return ""
        return f"{seconds:.0f} s" + (f": {told}" if told else "")

    def _hand_over(self, messages: Sequence[Message], capacity: int) -> None:
        """Let the claimer have what has a slot, and the broker the rest."""
        kept, excess = messages[:capacity], messages[capacity:]
        if excess:
            logger.error("more messages than asked for queue=%s count=%s", self._queue.name, len(excess))
        if self._shared.stopping.is_requested or not self._claimer.put(kept):
            kept, excess = [], messages
        self._shared.slots.occupy(asked=capacity - len(kept), taken=0)
        self._queue.give_back(excess)

    def _fail(self, error: Exception) -> None:
        self._tries += 1
        is_known = isinstance(error, LedgenceError)
        if not is_known and self._tries == 1:
            logger.error("receive failed in an unknown way queue=%s", self._queue.name, exc_info=error)
        told = str(error) if is_known else repr(error)
        is_new, self._told = told != self._told, told
        note_outage(f"receive queue={self._queue.name}", self._tries, told, is_new=is_new, whom=BROKER)
        stop_if_drained(self._shared)
        self._patience.pause()

    def _note_answer(self) -> None:
        if self._tries:
            note_recovery(f"receive queue={self._queue.name}", self._tries, whom=BROKER)
        self._tries, self._told = 0, ""
        self._patience.reset()
        self._unanswered_since = None

    def _rest(self, asked_at: float) -> None:
        shared = self._shared
        if self._claimer.is_idle:
            stop_if_drained(shared)
        if shared.clock.monotonic() - asked_at < DRAIN_WAIT_SECONDS / 2:
            self._idle.pause()
        else:
            self._idle.reset()
