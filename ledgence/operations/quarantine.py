"""Quarantine: what came from a queue's destination and can never be claimed is recorded, so that it may be removed."""

from collections.abc import Sequence
from uuid import UUID

from ledgence import sql
from ledgence.models import QuarantinedMessage
from ledgence.sql.text import storable
from ledgence.transitions import transition
from ledgence_worker import limits
from ledgence_worker.claims import RefusedMessage
from ledgence_worker.errors import InvalidInput, NotFound


def quarantine(session_id: UUID, queue: str, messages: Sequence[RefusedMessage], *, using: str) -> None:
    """Record messages of a queue that the session serves. Atomic; replayed by (queue, message id).

    Raises InvalidInput before anything is written, NotFound for a queue that the session does not serve, and Busy.
    """
    for message in messages:
        _check(message)
    limits.check_range("quarantine: number of messages", len(messages), 1, limits.MESSAGES_MAX)
    with transition(using, what="quarantine"):
        rows = sql.run(
            "quarantine_messages",
            using,
            {
                "session": session_id,
                "queue": queue,
                "message_ids": [m.message_id for m in messages],
                "reasons": [m.reason for m in messages],
                "details": [storable(m.detail)[: limits.REFUSED_DETAIL_CHARACTERS] for m in messages],
                "bodies": [storable(m.body)[: limits.REFUSED_BODY_CHARACTERS] for m in messages],
            },
        )
    if not rows:
        raise NotFound(f"quarantine: session {session_id} serves no queue {queue!r}.")


def _check(message: RefusedMessage) -> None:
    if not 1 <= len(message.message_id) <= limits.MESSAGE_ID_CHARACTERS or not message.message_id.isprintable():
        raise InvalidInput(f"quarantine: a message's id must be 1-{limits.MESSAGE_ID_CHARACTERS} printable characters.")
    if message.reason not in QuarantinedMessage.Reason.values:
        known = ", ".join(QuarantinedMessage.Reason.values)
        raise InvalidInput(f"quarantine: reason {message.reason[:40]!r} is unknown; it is one of {known}.")
