"""A queue whose work comes through a broker, as one worker process receives it."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import batched

from ledgence_worker.delivery.ports import AckQueue, Message, ReceiptStatus

logger = logging.getLogger("ledgence_worker.consumed_queue")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedQueue:
    """The queue's name, what receives from its physical queue, and that one's address, if it was told at the start."""

    name: str
    broker: AckQueue
    address: str = ""

    def give_back(self, messages: Sequence[Message]) -> None:
        """Let others have messages at once. Where that fails they come again when their visibility is over."""
        failed = 0
        for batch in batched(messages, self.broker.batch_max):
            try:
                answers = self.broker.give_back([message.receipt for message in batch])
                failed += sum(answer.status is ReceiptStatus.FAILED for answer in answers)
            except Exception:
                logger.exception("messages not given back queue=%s", self.name)
                failed += len(batch)
        if messages:
            logger.info("messages given back queue=%s count=%s failed=%s", self.name, len(messages), failed)

    def close(self) -> None:
        try:
            self.broker.close()
        except Exception:
            logger.exception("receiver not closed queue=%s", self.name)
