"""Pausing and resuming queues."""

from collections.abc import Iterable

from django.db.models.functions import Now

from ledgence import hints
from ledgence.models import OperatorAction, Queue
from ledgence.operations.actions import Answers, Operator, record


def pause(queue_ids: Iterable[int], operator: Operator, *, using: str) -> Answers:
    """Stop handing out a queue's work to acquisitions that begin after the commit. Running attempts go on.

    Answers by queue id: paused, already (it was paused; by whom and why stays as it was) or not_found.
    """
    ids = sorted(set(queue_ids))

    def decide() -> Answers:
        held = Queue.objects.using(using).select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
        running = [queue.pk for queue in held if queue.paused_at is None]
        Queue.objects.using(using).filter(pk__in=running).update(
            paused_at=Now(), paused_by=operator.name, pause_reason=operator.reason
        )
        return _answers(ids, {queue.pk for queue in held}, set(running), "paused")

    return record(operator, OperatorAction.Kind.PAUSE, dict.fromkeys(map(str, ids)), decide, using=using)


def resume(queue_ids: Iterable[int], operator: Operator, *, using: str) -> Answers:
    """Hand out a queue's work again. Answers by queue id: resumed, already or not_found."""
    ids = sorted(set(queue_ids))

    def decide() -> Answers:
        held = Queue.objects.using(using).select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
        paused = [queue.pk for queue in held if queue.paused_at is not None]
        Queue.objects.using(using).filter(pk__in=paused).update(paused_at=None, paused_by="", pause_reason="")
        hints.announce(set(paused), using=using)
        return _answers(ids, {queue.pk for queue in held}, set(paused), "resumed")

    return record(operator, OperatorAction.Kind.RESUME, dict.fromkeys(map(str, ids)), decide, using=using)


def _answers(ids: list[int], found: set[int], changed: set[int], word: str) -> Answers:
    return {str(pk): word if pk in changed else "already" if pk in found else "not_found" for pk in ids}
