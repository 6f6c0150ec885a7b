"""The publisher and the receiver of a broker in memory."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ledgence.testing.delivery.faults import Call
from ledgence.testing.delivery.held import Held
from ledgence_worker.delivery.ports import (
    Inspection,
    Message,
    Publication,
    Published,
    PublishStatus,
    ReceiptAnswer,
    ReceiptStatus,
)
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable

if TYPE_CHECKING:
    from ledgence.testing.delivery.memory import MemoryBroker


class _End:
    def __init__(self, broker: "MemoryBroker") -> None:
        self._broker = broker
        self.batch_max = broker.batch_max

    def inspect(self) -> Inspection:
        with self._broker.changed:
            self._broker.check(is_throttled=self._broker.is_throttled)
        return Inspection(address=self._broker.address, warnings=self._broker.warnings)

    def close(self) -> None:
        pass


class MemoryPublisher(_End):
    """Sends to a broker in memory. More entries than ``batch_max`` are a ValueError, and none is sent."""

    def publish(self, batch: Sequence[Publication]) -> Sequence[Published]:
        broker = self._broker
        if len(batch) > self.batch_max:
            raise ValueError(f"A call takes at most {self.batch_max} entries, not {len(batch)}.")
        with broker.changed:
            broker.begin(Call.PUBLISH)
            is_reply_lost = broker.loses_reply(Call.PUBLISH)
            return [self._send(publication, is_reply_lost) for publication in batch]

    def _send(self, publication: Publication, is_reply_lost: bool) -> Published:
        broker, faults = self._broker, self._broker.faults
        has_failed, is_uncertain = broker.happens(faults.failed), broker.happens(faults.uncertain)
        message_id = None
        if broker.is_refused(publication):
            status, detail = PublishStatus.REFUSED, "refused"
        elif broker.is_throttled or has_failed:
            status, detail = PublishStatus.FAILED, "throttled" if broker.is_throttled else "failed"
        else:
            taken_id = self._take(publication)
            if is_reply_lost or is_uncertain:
                status, detail = PublishStatus.UNCERTAIN, "the reply was lost"
            else:
                status, detail, message_id = PublishStatus.CONFIRMED, "", taken_id
                broker.counts.confirmed += 1
        return Published(publication_id=publication.publication_id, status=status, message_id=message_id, detail=detail)

    def _take(self, publication: Publication) -> str:
        broker, faults, waiting = self._broker, self._broker.faults, self._broker.held.waiting
        broker.counts.sent += 1
        broker.sent.append(publication)
        message_id = broker.new_id()
        copies = 2 if broker.happens(faults.duplicated) else 1
        for _ in range(0 if broker.happens(faults.lost) else copies):
            place = broker.random.randint(0, len(waiting)) if broker.happens(faults.reordered) else len(waiting)
            waiting.insert(place, Held(message_id=message_id, body=publication.body))
        broker.changed.notify_all()
        return message_id


class MemoryAckQueue(_End):
    """Receives from a broker in memory."""

    def receive(self, count: int, wait_seconds: float) -> Sequence[Message]:
        broker, give_up = self._broker, time.monotonic() + wait_seconds
        with broker.changed:
            broker.begin(Call.RECEIVE)
            while not broker.waiting:
                if time.monotonic() >= give_up:
                    return []
                broker.wait_change(give_up)
                broker.check(is_throttled=broker.is_throttled)
            until = time.monotonic() + broker.visibility_seconds
            several = min(count, self.batch_max, broker.waiting)
            delivered = [broker.held.deliver(broker.address, until) for _ in range(several)]
            broker.counts.received += several
            broker.changed.notify_all()
            if broker.loses_reply(Call.RECEIVE):
                raise BrokerUnavailable(f"The reply of queue {broker.address} was lost.")
            return [Message(message_id=held.message_id, receipt=held.receipt, body=held.body) for held in delivered]

    def acknowledge(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        return self._answer_all(Call.ACKNOWLEDGE, receipts)

    def give_back(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        return self._answer_all(Call.GIVE_BACK, receipts)

    def _answer_all(self, call: Call, receipts: Sequence[str]) -> list[ReceiptAnswer]:
        broker = self._broker
        with broker.changed:
            try:
                broker.begin(call)
            except (BrokerUnavailable, BrokerRefused) as error:
                return [ReceiptAnswer(receipt=r, status=ReceiptStatus.FAILED, detail=str(error)) for r in receipts]
            is_reply_lost = broker.loses_reply(call)
            return [self._answer(call, receipt, is_reply_lost) for receipt in receipts]

    def _answer(self, call: Call, receipt: str, is_reply_lost: bool) -> ReceiptAnswer:
        broker = self._broker
        has_failed, is_done_all_the_same = broker.happens(broker.faults.receipt_failed), broker.happens(0.5)
        if broker.refuses_receipts or (has_failed and not is_done_all_the_same):
            return ReceiptAnswer(receipt=receipt, status=ReceiptStatus.FAILED, detail="failed")
        is_done = self._carry_out(call, receipt)
        if has_failed or is_reply_lost:
            return ReceiptAnswer(receipt=receipt, status=ReceiptStatus.FAILED, detail="the reply was lost")
        return ReceiptAnswer(receipt=receipt, status=ReceiptStatus.DONE if is_done else ReceiptStatus.OVER)

    def _carry_out(self, call: Call, receipt: str) -> bool:
        broker = self._broker
        broker.land()
        broker.changed.notify_all()
        if call is Call.ACKNOWLEDGE:
            is_done = broker.held.remove(receipt)
            broker.counts.acknowledged += is_done
        else:
            is_done = broker.held.give_back(receipt)
            broker.counts.given_back += is_done
        return is_done
