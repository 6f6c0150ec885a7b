"""Pausing and resuming queues."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID, uuid5

from django.db.models import F
from django.db.models.functions import Now

from ledgence import hints
from ledgence.models import OperatorAction, Queue
from ledgence.operations.actions import Answers, Operator, Seen, record, targets_of
from ledgence_worker.errors import InvalidInput

#: Makes one action's id of a queue and its pause, whichever process ends that pause.
OVER = UUID("6c5f1b0e-3f0c-4c39-9f2b-0d1d5a4a8f11")


def pause(queues: Seen[int], operator: Operator, *, until: datetime | None = None, using: str) -> Answers:
    """Stop handing out a queue's work to acquisitions that begin after the commit. Running attempts go on.

    With ``until``, which has a zone, housekeeping resumes the queue within seconds of that time; while nobody keeps
    house it stays paused. ``queues`` maps id to the revision that the operator saw. Answers by id: paused, already
    (it was paused; by whom, why and until when stays as it was), moved_on (another revision) or not_found. Raises
    InvalidInput for a time that is over.
    """
    parameters = None if until is None else {"until": until.astimezone(UTC).isoformat()}
    decide = partial(_pause_held, queues, operator, until, using=using)
    return record(operator, OperatorAction.Kind.PAUSE, targets_of(queues), decide, parameters=parameters, using=using)


def _pause_held(queues: Seen[int], operator: Operator, until: datetime | None, *, using: str) -> Answers:
    held = _lock(queues, using=using)
    if until is not None and any(until <= queue.now for queue in held):
        raise InvalidInput(f"pause: {until.isoformat()} is over; name a time that is still to come, or none.")
    running = [queue.pk for queue in held if queue.paused_at is None and _is_as_seen(queue, queues)]
    Queue.objects.using(using).filter(pk__in=running).update(
        paused_at=Now(),
        paused_by=operator.name,
        pause_reason=operator.reason,
        paused_until=until,
        revision=F("revision") + 1,
    )
    is_paused = {queue.pk for queue in held if queue.paused_at is not None}
    return _answers(queues, held, running, is_paused, "paused")


def resume(queues: Seen[int], operator: Operator, *, using: str) -> Answers:
    """Hand out a queue's work again.

    ``queues`` maps id to the revision that the operator saw. Answers by queue id: resumed, already (it was not paused),
    moved_on (another revision) or not_found.
    """
    decide = partial(_resume_held, queues, using=using)
    return record(operator, OperatorAction.Kind.RESUME, targets_of(queues), decide, using=using)


def _resume_held(queues: Seen[int], *, using: str) -> Answers:
    held = _lock(queues, using=using)
    paused = [queue.pk for queue in held if queue.paused_at is not None and _is_as_seen(queue, queues)]
    Queue.objects.using(using).filter(pk__in=paused).update(
        paused_at=None, paused_by="", pause_reason="", paused_until=None, revision=F("revision") + 1
    )
    hints.announce(set(paused), using=using)
    is_running = {queue.pk for queue in held if queue.paused_at is None}
    return _answers(queues, held, paused, is_running, "resumed")


def resume_over(*, using: str) -> int:
    """Resume the queues whose pause is over, and return how many. Recorded like any resumption.

    Any number of processes may do it: each pause is ended, and recorded, once.
    """
    over = list(Queue.objects.using(using).filter(paused_until__lte=Now()).order_by("pk"))
    for queue in over:
        operator = Operator(
            action_id=uuid5(OVER, f"{queue.pk} {queue.revision}"),
            name="housekeeping",
            reason=f"Paused until {queue.paused_until} by {queue.paused_by}: {queue.pause_reason}",
        )
        resume({queue.pk: queue.revision}, operator, using=using)
    return len(over)


def _lock(queues: Seen[int], *, using: str) -> list[Any]:
    """Lock queues, and return them with the time. Any: rows with an annotation."""
    rows = Queue.objects.using(using).select_for_update(no_key=True).filter(pk__in=set(queues)).order_by("pk")
    return list(rows.annotate(now=Now()))


def _is_as_seen(queue: Queue, seen: Seen[int]) -> bool:
    return not isinstance(seen, Mapping) or seen[queue.pk] == queue.revision


def _answers(queues: Seen[int], held: list[Any], changed: list[int], already: set[int], word: str) -> Answers:
    found = {queue.pk: "already" if queue.pk in already else "moved_on" for queue in held} | dict.fromkeys(
        changed, word
    )
    return {str(pk): found.get(pk, "not_found") for pk in queues}
