"""Receives messages from one queue of SQS, and acknowledges each by itself."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from ledgence_worker.delivery.ports import Inspection, Message, ReceiptAnswer, ReceiptStatus
from ledgence_worker.delivery.sqs.batches import Entry, entry_id, match_entries
from ledgence_worker.delivery.sqs.clients import Client, make_client, make_session
from ledgence_worker.delivery.sqs.faults import Outcome, fault_of
from ledgence_worker.delivery.sqs.inspection import inspect_queue
from ledgence_worker.delivery.sqs.options import SqsOptions
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable

logger = logging.getLogger(__name__)

BATCH_MAX: Final = 10
_WAIT_SECONDS_MAX: Final = 20
#: Removing a delivery again does no harm, so here the calls are repeated by boto3 itself.
_ACKNOWLEDGE_ATTEMPTS: Final = 3
#: SQS and what speaks its protocol say differently that a receipt is worth nothing any more.
_OVER: Final = re.compile(r"ReceiptHandleIsInvalid|MessageNotInflight|InvalidParameterValue")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verb:
    """What can be done with receipts: the action's name, its method of the client, and what each entry says beside."""

    action: str
    method: str
    entry: Mapping[str, Any]


_DELETE: Final = _Verb(action="DeleteMessage", method="delete_message_batch", entry={})
_GIVE_BACK: Final = _Verb(
    action="ChangeMessageVisibility", method="change_message_visibility_batch", entry={"VisibilityTimeout": 0}
)


class SqsAckQueue:
    """An AckQueue. A receipt is the broker's own, which no other queue knows."""

    batch_max = BATCH_MAX

    def __init__(self, options: SqsOptions) -> None:
        self._options = options
        self._session = make_session(options)
        self._acknowledger = make_client(self._session, options, attempts=_ACKNOWLEDGE_ATTEMPTS)
        self._receivers: dict[int, Client] = {}
        self._receivers_lock = Lock()

    def inspect(self) -> Inspection:
        """Check that the queue can be used. Raises BrokerRefused with the reason, or BrokerUnavailable."""
        return inspect_queue(self._acknowledger, self._options)

    def receive(self, count: int, wait_seconds: float) -> Sequence[Message]:
        """Return up to ``count`` messages, ten at most; wait whole seconds, 20 at most.

        Raises BrokerUnavailable, and BrokerRefused when repeating it is in vain.
        """
        wanted = min(count, BATCH_MAX)
        if wanted < 1:
            return []
        wait = int(max(0, min(wait_seconds, _WAIT_SECONDS_MAX)))
        client = self._receiver(wait)
        try:
            reply = client.receive_message(
                QueueUrl=self._options.queue_url,
                MaxNumberOfMessages=wanted,
                WaitTimeSeconds=wait,
                VisibilityTimeout=self._options.visibility_timeout_seconds,
            )
        except Exception as error:
            fault = fault_of(error, client=client, options=self._options, action="ReceiveMessage")
            is_final = fault.outcome in (Outcome.FORBIDDEN, Outcome.REFUSED)
            raise (BrokerRefused if is_final else BrokerUnavailable)(fault.text) from error
        messages = [message for record in reply.get("Messages") or () if (message := self._message(record))]
        if len(messages) > wanted:
            self.give_back([message.receipt for message in messages[wanted:]])
        return messages[:wanted]

    def acknowledge(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        """Remove deliveries for good, and answer each. Never raises for the broker."""
        return self._do(_DELETE, receipts)

    def give_back(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        """Let others have deliveries at once, and answer each. Never raises for the broker."""
        return self._do(_GIVE_BACK, receipts)

    def close(self) -> None:
        """Give back every connection."""
        for client in (self._acknowledger, *self._receivers.values()):
            client.close()

    def _receiver(self, wait: int) -> Client:
        """Return the client for a wait: how long an answer may take is a client's, and each wait ends soon after it."""
        with self._receivers_lock:
            client = self._receivers.get(wait)
            if client is None:
                client = self._receivers[wait] = make_client(self._session, self._options, wait_seconds=wait)
            return client

    def _message(self, record: Mapping[str, Any]) -> Message | None:
        message_id, receipt, body = (record.get(name) for name in ("MessageId", "ReceiptHandle", "Body"))
        if not (isinstance(message_id, str) and message_id and isinstance(receipt, str) and receipt):
            # Nothing can be done with it; it comes back when it is visible again.
            logger.warning("message ignored queue=%s message_id=%.80r", self._options.queue_url, message_id)
            return None
        return Message(message_id=message_id, receipt=receipt, body=body if isinstance(body, str) else "")

    def _do(self, verb: _Verb, receipts: Sequence[str]) -> list[ReceiptAnswer]:
        answers: list[ReceiptAnswer] = []
        for start in range(0, len(receipts), BATCH_MAX):
            answers += self._do_batch(verb, receipts[start : start + BATCH_MAX])
        return answers

    def _do_batch(self, verb: _Verb, receipts: Sequence[str]) -> list[ReceiptAnswer]:
        entries = [{"Id": entry_id(n), "ReceiptHandle": receipt, **verb.entry} for n, receipt in enumerate(receipts)]
        call = getattr(self._acknowledger, verb.method)
        try:
            reply = call(QueueUrl=self._options.queue_url, Entries=entries)
        except Exception as error:
            fault = fault_of(error, client=self._acknowledger, options=self._options, action=verb.action)
            if fault.outcome is Outcome.REFUSED and len(receipts) > 1:
                return self._do_singly(verb, receipts)
            status = ReceiptStatus.OVER if fault.outcome is Outcome.REFUSED else ReceiptStatus.FAILED
            return [ReceiptAnswer(receipt=receipt, status=status, detail=fault.text) for receipt in receipts]
        told = match_entries(reply, len(receipts))
        return [_answered(receipt, entry) for receipt, entry in zip(receipts, told, strict=True)]

    def _do_singly(self, verb: _Verb, receipts: Sequence[str]) -> list[ReceiptAnswer]:
        """Find the receipt for which some brokers refuse the whole call."""
        answers: list[ReceiptAnswer] = []
        for receipt in receipts:
            answers += self._do_batch(verb, [receipt])
            if answers[-1].status is ReceiptStatus.FAILED:
                # The time of a call is bounded, so a broker that began to fail is not asked ten times.
                break
        detail = "not asked, as one before it failed"
        unasked = receipts[len(answers) :]
        return answers + [ReceiptAnswer(receipt=one, status=ReceiptStatus.FAILED, detail=detail) for one in unasked]


def _answered(receipt: str, told: Entry | None) -> ReceiptAnswer:
    if told is None:
        return ReceiptAnswer(receipt=receipt, status=ReceiptStatus.FAILED, detail="the reply says nothing of it")
    if told.is_done:
        return ReceiptAnswer(receipt=receipt, status=ReceiptStatus.DONE)
    status = ReceiptStatus.OVER if _OVER.search(told.code) else ReceiptStatus.FAILED
    return ReceiptAnswer(receipt=receipt, status=status, detail=told.detail)
