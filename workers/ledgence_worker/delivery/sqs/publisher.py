"""Sends references to one queue of SQS."""

import re
from collections.abc import Sequence
from typing import Final

from ledgence_worker.delivery.ports import Inspection, Publication, Published, PublishStatus
from ledgence_worker.delivery.reference import REFERENCE_BYTES
from ledgence_worker.delivery.sqs.batches import Entry, entry_id, match_entries
from ledgence_worker.delivery.sqs.clients import make_client, make_session
from ledgence_worker.delivery.sqs.faults import Outcome, fault_of, is_throttled
from ledgence_worker.delivery.sqs.inspection import inspect_queue
from ledgence_worker.delivery.sqs.options import SqsOptions
from ledgence_worker.errors import BrokerUnavailable, InvalidInput

BATCH_MAX: Final = 10
_ILLEGAL: Final = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")
#: Errors of an entry that are the queue's, not its own.
_QUEUE_CODES: Final = re.compile(r"Kms|AccessDenied|QueueDoesNotExist|NonExistentQueue")


class SqsPublisher:
    """A DispatchPublisher. It never repeats a call: whoever publishes does, and knows what it repeats."""

    batch_max = BATCH_MAX

    def __init__(self, options: SqsOptions) -> None:
        self._options = options
        self._client = make_client(make_session(options), options)

    def inspect(self) -> Inspection:
        """Check that the queue can be used. Raises BrokerRefused with the reason, or BrokerUnavailable."""
        return inspect_queue(self._client, self._options)

    def publish(self, batch: Sequence[Publication]) -> Sequence[Published]:
        """Send up to ten entries, and answer each of them. Raises BrokerUnavailable when nothing was sent."""
        if len(batch) > BATCH_MAX:
            raise InvalidInput(f"One call sends {BATCH_MAX} entries at most, not {len(batch)}.")
        # Ten bodies of this size are far below what SQS takes in one call.
        reasons = [_refusal(publication.body) for publication in batch]
        refused = [_answer(one, PublishStatus.REFUSED, why) for one, why in zip(batch, reasons, strict=True) if why]
        sent = [one for one, why in zip(batch, reasons, strict=True) if not why]
        return [*refused, *self._send(sent)] if sent else refused

    def close(self) -> None:
        """Give back every connection."""
        self._client.close()

    def _send(self, batch: Sequence[Publication]) -> list[Published]:
        entries = [{"Id": entry_id(index), "MessageBody": one.body} for index, one in enumerate(batch)]
        try:
            reply = self._client.send_message_batch(QueueUrl=self._options.queue_url, Entries=entries)
        except Exception as error:
            fault = fault_of(error, client=self._client, options=self._options, action="SendMessage")
            match fault.outcome:
                case Outcome.UNKNOWN:
                    return [_answer(one, PublishStatus.UNCERTAIN, fault.text) for one in batch]
                case Outcome.REFUSED if len(batch) > 1:
                    return self._send_singly(batch)
                case Outcome.REFUSED:
                    return [_answer(one, PublishStatus.REFUSED, fault.text) for one in batch]
            raise BrokerUnavailable(fault.text) from error
        return [_published(one, told) for one, told in zip(batch, match_entries(reply, len(batch)), strict=True)]

    def _send_singly(self, batch: Sequence[Publication]) -> list[Published]:
        """Find the entry for which some brokers refuse the whole call."""
        answers: list[Published] = []
        for publication in batch:
            try:
                answers += self._send([publication])
            except BrokerUnavailable as error:
                answers.append(_answer(publication, PublishStatus.FAILED, str(error)))
            if answers[-1].status in (PublishStatus.UNCERTAIN, PublishStatus.FAILED):
                # The time of a call is bounded, so a broker that began to fail is not asked ten times.
                break
        unsent = batch[len(answers) :]
        return answers + [_answer(one, PublishStatus.FAILED, "not sent, as one before it failed") for one in unsent]


def _refusal(body: str) -> str:
    """Return why SQS would never take a body; empty if it would."""
    illegal = _ILLEGAL.search(body)
    if illegal:
        return f"SQS takes no character U+{ord(illegal[0]):04X}"
    size = len(body.encode())
    return "" if 0 < size < REFERENCE_BYTES else f"a body has 1-{REFERENCE_BYTES - 1} bytes, not {size}"


def _published(publication: Publication, told: Entry | None) -> Published:
    if told is None:
        return _answer(publication, PublishStatus.UNCERTAIN, "the reply says nothing of it")
    if told.is_done:
        message_id = told.record.get("MessageId")
        if isinstance(message_id, str) and message_id:
            identifier = publication.publication_id
            return Published(publication_id=identifier, status=PublishStatus.CONFIRMED, message_id=message_id)
        return _answer(publication, PublishStatus.UNCERTAIN, "the reply names no message")
    is_own = (
        told.record.get("SenderFault") is True and not is_throttled(told.code) and not _QUEUE_CODES.search(told.code)
    )
    return _answer(publication, PublishStatus.REFUSED if is_own else PublishStatus.FAILED, told.detail)


def _answer(publication: Publication, status: PublishStatus, detail: str) -> Published:
    return Published(publication_id=publication.publication_id, status=status, detail=detail)
