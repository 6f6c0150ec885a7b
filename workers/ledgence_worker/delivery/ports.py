"""The ports to a broker, which its adapter implements. No type of a broker's own library crosses them.

A broker announces ready work and nothing else: it may lose, repeat, delay and reorder messages. What an adapter must
tell the truth about is what it knows of each entry; what it does not know is UNCERTAIN, never CONFIRMED or FAILED.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

#: What no destination's name exceeds.
ADDRESS_BYTES = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What a broker tells of a physical queue before it is used.

    ``address`` names the physical queue, the same from wherever it is reached, in at most ADDRESS_BYTES bytes: it is
    what the route records. ``warnings`` are sentences for people: what works, and may not be what is wanted.
    """

    address: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One entry to send: its body is text, under delivery.reference.REFERENCE_BYTES bytes in UTF-8."""

    publication_id: UUID
    body: str


class PublishStatus(StrEnum):
    """What became of one entry."""

    # The broker has it, and named it.
    CONFIRMED = "confirmed"
    # The broker does not have it, and would refuse it again as it is.
    REFUSED = "refused"
    # The broker does not have it: throttled, or never reached. Send it again later.
    FAILED = "failed"
    # Nobody knows: no answer, a broken one, or one without the message's id. Send it again later.
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One entry's result. ``message_id`` is the broker's, present exactly when confirmed; ``detail`` is for people."""

    publication_id: UUID
    status: PublishStatus
    message_id: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One delivery of a message. ``receipt`` stands for this delivery alone; ``body`` is whatever somebody sent."""

    message_id: str
    receipt: str
    body: str


class ReceiptStatus(StrEnum):
    """What became of one receipt."""

    DONE = "done"
    # The broker does not know the receipt any more: this delivery is over, there is nothing left to do with it.
    OVER = "over"
    # Not done, or nobody knows.
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptAnswer:
    """One receipt's answer; ``detail`` is for people."""

    receipt: str
    status: ReceiptStatus
    detail: str = ""


class DispatchPublisher(Protocol):
    """Sends to one physical queue. Every method may be called from any thread, several at once."""

    #: How many entries one call takes at most.
    batch_max: int

    def inspect(self) -> Inspection:
        """Check that the queue can be used. Raises BrokerRefused with the reason, or BrokerUnavailable."""
        ...

    def publish(self, batch: Sequence[Publication]) -> Sequence[Published]:
        """Send entries, and answer each of them once, in any order.

        Bounded in time. Raises BrokerUnavailable when nothing of the batch was sent; an outcome that is not known is
        answered as UNCERTAIN. Whatever else it raises counts as uncertain for the whole batch.
        """
        ...

    def close(self) -> None:
        """Give back every connection. Called once, when all other calls have returned."""
        ...


class AckQueue(Protocol):
    """Receives from one physical queue and acknowledges each message by itself. Methods may be called from any thread.

    A stream with one position for all its messages is no such queue: acknowledging one message there acknowledges
    every message before it.
    """

    #: How many messages or receipts one call takes at most.
    batch_max: int

    def inspect(self) -> Inspection:
        """Check that the queue can be used. Raises BrokerRefused with the reason, or BrokerUnavailable."""
        ...

    def receive(self, count: int, wait_seconds: float) -> Sequence[Message]:
        """Return up to ``count`` messages, which nobody else gets for a while; wait for the first of them.

        Ends soon after ``wait_seconds``. Raises BrokerUnavailable, and BrokerRefused when repeating it is in vain.
        """
        ...

    def acknowledge(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        """Remove deliveries for good, and answer each. Never raises for the broker: a failure is FAILED."""
        ...

    def give_back(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        """Let others have deliveries at once, and answer each. Never raises for the broker: a failure is FAILED."""
        ...

    def close(self) -> None:
        """Give back every connection. Called once, when all other calls have returned."""
        ...
