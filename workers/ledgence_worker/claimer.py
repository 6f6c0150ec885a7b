"""The claimer: asks the task service for exactly the work that messages name, on its own thread and channel."""

import logging
import threading
from collections import deque
from collections.abc import Sequence

from ledgence_worker import limits
from ledgence_worker.acknowledger import Acknowledger
from ledgence_worker.admission import admit
from ledgence_worker.channel import Channel, Undecided
from ledgence_worker.claims import Claimed, ClaimStatus, Dispatch
from ledgence_worker.consumed_queue import ConsumedQueue
from ledgence_worker.deliveries import Deliveries, Refusal, check_answers, read_messages, refuse
from ledgence_worker.delivery.ports import Message
from ledgence_worker.errors import Busy, LedgenceError, Unavailable
from ledgence_worker.patience import Forced, Patience
from ledgence_worker.shared import Shared

logger = logging.getLogger("ledgence_worker.claimer")


class Claimer:
    """Resolves every message that it is handed: claimed, known to be over, recorded as refused, or given back.

    Only what has a validated answer, or is recorded, is acknowledged. put(), close() and is_idle belong to any thread.
    """

    def __init__(self, shared: Shared, queue: ConsumedQueue, acknowledger: Acknowledger, *, channel: int) -> None:
        self._shared = shared
        self._queue = queue
        self._acknowledger = acknowledger
        self.channel = Channel(shared, number=channel)
        # A message that is not recorded stays where it is, so nothing is waited for once the worker drains.
        self._patience = Patience(shared.clock, shared.stopping.draining)
        self._messages: deque[Message] = deque()
        self._in_hand = 0
        self._is_closed = False
        self._changed = threading.Condition(threading.Lock())

    @property
    def is_idle(self) -> bool:
        """Whether nothing that was put is left to resolve."""
        return not self._in_hand and not self._messages

    def put(self, messages: Sequence[Message]) -> bool:
        """Hand over messages that have a slot reserved each; return False once closed, with nothing taken."""
        with self._changed:
            if self._is_closed:
                return False
            self._messages.extend(messages)
            self._changed.notify()
            return True

    def close(self) -> None:
        """Take nothing more, and let run() end once all that was put is resolved."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def run(self) -> None:
        try:
            while messages := self._take():
                self.step(messages)
                self._in_hand = 0
        finally:
            # Where the task service gives this session nothing more, others get its messages at once.
            self.close()
            self._queue.give_back(self._messages)
            self._messages.clear()
            self._in_hand = 0

    def step(self, messages: Sequence[Message]) -> None:
        """Resolve one batch."""
        if self._shared.stopping.is_requested:
            self._shared.slots.occupy(asked=len(messages), taken=0)
            self._queue.give_back(messages)
            return
        found = read_messages(messages, self._shared.session, self._queue.name)
        refusals = list(found.refusals)
        if found.named:
            refusals += self._claim(found, messages)
        else:
            self._shared.slots.occupy(asked=len(messages), taken=0)
        if refusals:
            self._quarantine(refusals)

    def _claim(self, found: Deliveries, messages: Sequence[Message]) -> list[Refusal]:
        """Claim what is named, acknowledge what is answered, and return the messages of what does not exist."""
        dispatches = list(found.named)
        try:
            reply = self.channel.claim(dispatches)
        except Undecided as error:
            return self._claim_singly(found, messages, error)
        except LedgenceError:
            self._queue.give_back(messages)
            raise
        check_answers(reply.answer, dispatches, self._shared.session)
        self._shared.slots.occupy(asked=len(messages), taken=len(reply.answer.assignments))
        admit(reply, self._shared)
        unknown = _not_found(reply.answer)
        resolved = [m for dispatch, sent in found.named.items() if dispatch not in unknown for m in sent]
        self._acknowledger.put(resolved)
        detail = "there is no such work in the queues that this session serves"
        return [refuse(m, ClaimStatus.NOT_FOUND, detail) for dispatch in unknown for m in found.named[dispatch]]

    def _claim_singly(self, found: Deliveries, messages: Sequence[Message], error: Undecided) -> list[Refusal]:
        """Claim one by one, so that work that somebody holds keeps no other; its own message comes again later."""
        named = found.named
        if len(named) == 1:
            [dispatch] = named
            told = "claim not decided, its message comes again queue=%s task=%s generation=%s error=%s"
            logger.warning(told, self._queue.name, dispatch.task_id, dispatch.generation, error)
            self._shared.slots.occupy(asked=len(messages), taken=0)
            return []
        self._shared.slots.occupy(asked=len(messages) - sum(map(len, named.values())), taken=0)
        refusals: list[Refusal] = []
        for dispatch, sent in named.items():
            refusals += self._claim(Deliveries(named={dispatch: sent}, refusals=()), sent)
        return refusals

    def _quarantine(self, refusals: Sequence[Refusal]) -> None:
        """Record messages that can never be claimed, and only then acknowledge them."""
        for refusal in refusals:
            told = refusal.record
            logger.error(
                "message cannot be claimed queue=%s message=%s reason=%s detail=%s",
                self._queue.name,
                told.message_id,
                told.reason,
                told.detail,
            )
        session_id, records = self._shared.session.session_id, [refusal.record for refusal in refusals]
        service = self._shared.service
        try:
            self._patience.repeat(
                lambda: service.quarantine(session_id, self._queue.name, records), "quarantine", on=(Busy, Unavailable)
            )
        except (LedgenceError, Forced) as error:
            logger.error("messages not recorded, they stay queue=%s error=%s", self._queue.name, error)
        else:
            self._acknowledger.put([refusal.message for refusal in refusals])

    def _take(self) -> list[Message]:
        """Wait for messages and return as many as one claim names; none once closed and all are taken."""
        with self._changed:
            while not self._messages and not self._is_closed:
                self._changed.wait()
            count = self._in_hand = min(len(self._messages), limits.MESSAGES_MAX)
            return [self._messages.popleft() for _ in range(count)]


def _not_found(claimed: Claimed) -> set[Dispatch]:
    return {
        Dispatch(task_id=answer.task_id, generation=answer.generation)
        for answer in claimed.answers
        if answer.status is ClaimStatus.NOT_FOUND
    }
