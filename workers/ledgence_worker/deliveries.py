"""What a batch of a broker's messages asks for: exact work, and messages that can never be claimed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from ledgence_worker import limits
from ledgence_worker.claims import Claimed, ClaimStatus, Dispatch, RefusedMessage
from ledgence_worker.delivery.ports import Message
from ledgence_worker.delivery.reference import Malformed, decode_for
from ledgence_worker.protocol import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A message that can never be claimed, and what is recorded of it."""

    message: Message
    record: RefusedMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliveries:
    """``named``: the messages that name each dispatch, of which several deliveries are one claim."""

    named: Mapping[Dispatch, Sequence[Message]]
    refusals: Sequence[Refusal]


class Mismatch(Exception):
    """The task service answered a claim with something else than was asked; none of it can be relied on."""


def read_messages(messages: Sequence[Message], session: Session, queue: str) -> Deliveries:
    """Read messages strictly, as they come from the destination of a queue of the session."""
    named: dict[Dispatch, list[Message]] = {}
    refusals = []
    for message in messages:
        try:
            reference = decode_for(message.body, tenant=session.tenant, namespace=session.namespace, queue=queue)
        except Malformed as error:
            refusals.append(refuse(message, error.reason, error.detail))
        else:
            named.setdefault(reference.dispatch, []).append(message)
    return Deliveries(named=named, refusals=refusals)


def refuse(message: Message, reason: str, detail: str) -> Refusal:
    """Return a message that cannot be claimed with what is to be recorded of it."""
    record = RefusedMessage(
        message_id=_name_of(message),
        reason=reason,
        detail=_text(detail, limits.REFUSED_DETAIL_CHARACTERS),
        body=_text(message.body, limits.REFUSED_BODY_CHARACTERS),
    )
    return Refusal(message=message, record=record)


def check_answers(claimed: Claimed, dispatches: Sequence[Dispatch], session: Session) -> None:
    """Check that exactly these dispatches are answered, and exactly what was claimed is assigned. Raises Mismatch.

    The work may wait in another queue by now that the session serves as well: an operator may have moved it.
    """
    answered = [Dispatch(task_id=answer.task_id, generation=answer.generation) for answer in claimed.answers]
    if len(answered) != len(dispatches) or set(answered) != set(dispatches):
        raise Mismatch(f"claimed {len(dispatches)} dispatches, and {len(answered)} answers came, of others.")
    due = {(a.task_id, a.generation) for a in claimed.answers if a.status is ClaimStatus.CLAIMED}
    assigned = [(assignment.task_id, assignment.number) for assignment in claimed.assignments]
    if len(assigned) != len(due) or set(assigned) != due:
        raise Mismatch(f"{len(due)} dispatches are answered claimed, and {len(assigned)} attempts assigned, of others.")
    scope = (session.tenant, session.namespace)
    for assignment in claimed.assignments:
        if (assignment.tenant, assignment.namespace) != scope:
            raise Mismatch(f"attempt {assignment.task_id}.{assignment.number} is not of {'/'.join(scope)}.")


def _name_of(message: Message) -> str:
    name = message.message_id
    if 1 <= len(name) <= limits.MESSAGE_ID_CHARACTERS and name.isprintable():
        return name
    # Whatever an adapter hands over, its message must have a name to be recorded under.
    return sha256((name or message.receipt).encode("utf-8", "backslashreplace")).hexdigest()


def _text(text: str, characters: int) -> str:
    """Return the beginning of a text, with halves of surrogate pairs escaped."""
    return text[:characters].encode("utf-8", "backslashreplace").decode()[:characters]
