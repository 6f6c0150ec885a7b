"""The senders of one route: threads that hand batches to the broker, outside any transaction."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from ledgence.operations.publish import LeasedPublication, RoutedQueue, SendResult
from ledgence.publishing.matching import failed, match, uncertain
from ledgence_worker.delivery.ports import DispatchPublisher, Publication, Published, PublishStatus
from ledgence_worker.delivery.reference import VERSION, Reference, encode
from ledgence_worker.errors import BrokerUnavailable

logger = logging.getLogger("ledgence.publishing")

#: How many batches one process sends to one destination at a time.
SENDERS = 4
#: A broker that is heard in any of these ways is there.
ANSWERS = frozenset({PublishStatus.CONFIRMED, PublishStatus.REFUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What is sent with one call, if it is begun in time. An empty one asks the broker whether it is there."""

    leased: Sequence[LeasedPublication]
    begin_until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of a batch. ``is_answered`` None: nothing was sent; ``failure``: why nobody answered."""

    results: Sequence[SendResult]
    is_answered: bool | None
    failure: str = ""


class Senders:
    """Sends batches on a few threads, and reports each to ``report``, which is called on any of them."""

    def __init__(self, queue: RoutedQueue, broker: DispatchPublisher, report: Callable[[Sent], None]) -> None:
        self._queue = queue
        self._broker = broker
        self._report = report
        self._batches: SimpleQueue[Batch | None] = SimpleQueue()
        #: While it is set, batches that are not begun yet come back unsent. A batch that nobody answers sets it.
        self.halted = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name=f"ledgence-sender-{number}", daemon=True)
            for number in range(SENDERS)
        ]
        for thread in self._threads:
            thread.start()

    def send(self, batch: Batch) -> None:
        self._batches.put(batch)

    def close(self, timeout: float) -> bool:
        """End the threads after the batches that are running; return whether all of them have ended in time."""
        deadline = time.monotonic() + timeout
        for _ in self._threads:
            self._batches.put(None)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            if not batch.leased:
                sent = self._inspect()
            elif self.halted.is_set() or time.monotonic() >= batch.begin_until:
                results = [SendResult(leased=leased, status=None) for leased in batch.leased]
                sent = Sent(results=results, is_answered=None)
            else:
                sent = self._send(batch.leased)
            self._report(sent)

    def _send(self, leased: Sequence[LeasedPublication]) -> Sent:
        batch = [Publication(publication_id=one.publication_id, body=self._body(one)) for one in leased]
        answers = self._publish(batch)
        results = [
            SendResult(leased=one, status=answer.status, detail=answer.detail)
            for one, answer in zip(leased, answers, strict=True)
        ]
        is_answered = any(answer.status in ANSWERS for answer in answers)
        if not is_answered:
            # At once, and not when the publisher hears of it: the others would be tried in vain meanwhile.
            self.halted.set()
        return Sent(results=results, is_answered=is_answered, failure="" if is_answered else answers[0].detail)

    def _publish(self, batch: Sequence[Publication]) -> list[Published]:
        try:
            return match(batch, self._broker.publish(batch))
        except BrokerUnavailable as error:
            return failed(batch, str(error))
        except Exception as error:
            # Whatever an adapter raises, the broker may have the batch. The publisher tells of the outage.
            logger.debug("sending failed queue=%s", self._queue.name, exc_info=True)
            return uncertain(batch, f"{type(error).__name__}: {error}")

    def _inspect(self) -> Sent:
        try:
            self._broker.inspect()
        except Exception as error:
            return Sent(results=(), is_answered=False, failure=str(error))
        return Sent(results=(), is_answered=True)

    def _body(self, leased: LeasedPublication) -> str:
        name = self._queue.name
        return encode(
            Reference(
                v=VERSION,
                tenant=name.tenant,
                namespace=name.namespace,
                queue=name.queue,
                task=leased.task_id,
                generation=leased.generation,
                publication=leased.publication_id,
            )
        )
