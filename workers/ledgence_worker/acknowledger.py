"""The acknowledger: removes resolved messages from the broker in batches, on its own thread."""

import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

from ledgence_worker.clock import Clock
from ledgence_worker.consumed_queue import ConsumedQueue
from ledgence_worker.delivery.ports import Message, ReceiptAnswer, ReceiptStatus
from ledgence_worker.patience import is_to_be_told

logger = logging.getLogger("ledgence_worker.acknowledger")

#: How long the first receipt waits for others: a request costs as much for one as for ten, and nobody waits for it.
LINGER_SECONDS: Final = 0.1
#: More receipts are not kept while the broker does not take them: the oldest go first, whose messages come again.
KEPT_MAX: Final = 10_000


class Acknowledger:
    """Acknowledges each message once. A failure changes nothing: the message comes again, and is answered again.

    put() and close() may be called from any thread, the rest belongs to the acknowledger's own.
    """

    def __init__(self, queue: ConsumedQueue, clock: Clock, *, linger_seconds: float = LINGER_SECONDS) -> None:
        self._queue = queue
        self._clock = clock
        self._linger_seconds = linger_seconds
        self._receipts: deque[str] = deque(maxlen=KEPT_MAX)
        self._first_at = 0.0
        self._is_closed = False
        self._changed = threading.Condition(threading.Lock())
        #: How many messages are not known to be removed, in all and since the last success.
        self.failed_count = 0
        self._failed_calls = 0

    def put(self, messages: Sequence[Message]) -> None:
        """Let messages be acknowledged soon."""
        with self._changed:
            if not self._receipts:
                self._first_at = self._clock.monotonic()
            self._receipts.extend(message.receipt for message in messages)
            self._changed.notify()

    def close(self) -> None:
        """Let run() end once everything put was tried."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def run(self) -> None:
        while batch := self._take():
            self.step(batch)

    def step(self, receipts: Sequence[str]) -> None:
        """Acknowledge one batch."""
        try:
            answers = self._queue.broker.acknowledge(receipts)
            failed = _failed(receipts, answers)
            detail: object = next((answer.detail for answer in answers if answer.receipt in failed), "no answer")
        except Exception as error:
            # An adapter that breaks its promise not to raise: nobody knows what it has done.
            failed, detail = set(receipts), repr(error)
        if not failed:
            self._failed_calls = 0
            return
        self.failed_count += len(failed)
        self._failed_calls += 1
        if is_to_be_told(self._failed_calls):
            logger.warning(
                "messages not acknowledged, they come again queue=%s count=%s in_all=%s reason=%s",
                self._queue.name,
                len(failed),
                self.failed_count,
                detail,
            )

    def _take(self) -> list[str]:
        """Wait for receipts and return a batch of them; empty once closed and all are taken."""
        most = self._queue.broker.batch_max
        with self._changed:
            while not self._receipts and not self._is_closed:
                self._changed.wait()
            while len(self._receipts) < most and not self._is_closed:
                linger = self._first_at + self._linger_seconds - self._clock.monotonic()
                if linger <= 0:
                    break
                self._changed.wait(linger)
            return [self._receipts.popleft() for _ in range(min(most, len(self._receipts)))]


def _failed(receipts: Sequence[str], answers: Sequence[ReceiptAnswer]) -> set[str]:
    """Return the receipts whose messages may still be there. One that is over has nothing left to be done."""
    done = {answer.receipt for answer in answers if answer.status is not ReceiptStatus.FAILED}
    return set(receipts) - done
