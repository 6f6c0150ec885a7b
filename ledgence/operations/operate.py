"""What operators do to tasks: requeue, copy, cancel, republish, force-expire. Each is recorded with who and why."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import TextField
from django.db.models.functions import Cast

from ledgence import hints, sql
from ledgence.models import OperatorAction, Task
from ledgence.operations.actions import Answers, Operator, Seen, record, targets_of
from ledgence.operations.cancel import cancel_held
from ledgence.operations.expire import end_as_lost
from ledgence.operations.reschedule import lock_queued
from ledgence.operations.submit import submit
from ledgence.submission import Submission

Kind = OperatorAction.Kind


def requeue(tasks: Mapping[UUID, int | None], operator: Operator, *, using: str) -> Answers:
    """Make failed and cancelled tasks ready again, each only at the revision that the operator saw.

    ``tasks`` maps id to expected revision. Answers by id: requeued (attempt budget anew, cancel request cleared),
    moved_on (another revision), not_terminal, succeeded (make a copy instead) or not_found.
    """
    decide = partial(requeue_held, tasks, using=using)
    return record(operator, Kind.REQUEUE, targets_of(tasks), decide, using=using)


def requeue_held(tasks: Mapping[UUID, int | None], *, using: str) -> Answers:
    """Requeue inside a transaction that the caller holds open."""
    ids = sorted(tasks)
    sql.run("lock_tasks", using, {"tasks": ids})
    rows = sql.run("requeue_tasks", using, {"tasks": ids, "revisions": [tasks[task] for task in ids]})
    hints.announce({queue for _, queue in rows}, using=using)
    return _explain(ids, {task for task, _ in rows}, tasks, using=using)


def _explain(ids: list[UUID], requeued: set[UUID], expected: Mapping[UUID, int | None], *, using: str) -> Answers:
    found = {
        pk: (outcome, revision)
        for pk, outcome, revision in Task.objects.using(using)
        .filter(pk__in=ids)
        .values_list("pk", "outcome", "revision")
    }
    answers: Answers = {}
    for task in ids:
        outcome, revision = found.get(task, (None, None))
        if task in requeued:
            answer = "requeued"
        elif revision is None:
            answer = "not_found"
        elif revision != expected[task]:
            answer = "moved_on"
        else:
            answer = "succeeded" if outcome == "succeeded" else "not_terminal"
        answers[str(task)] = answer
    return answers


def requeue_as_copy(tasks: Iterable[UUID], operator: Operator, *, using: str) -> Answers:
    """Submit a copy of each task, linked to it, without its idempotency key. Answers: the copy's id, or not_found."""
    ids = sorted(set(tasks))
    return record(operator, Kind.COPY, targets_of(ids), partial(copy_held, ids, using=using), using=using)


def copy_held(tasks: Iterable[UUID], *, using: str) -> Answers:
    """Make copies inside a transaction that the caller holds open."""
    ids = sorted(set(tasks))
    found = Task.objects.using(using).filter(pk__in=ids).select_related("queue", "program", "policy")
    # As text, which the copy gets byte for byte; the driver would parse it. Any: rows with an annotation.
    rows: Any = found.defer("data", "result").annotate(text=Cast("data", TextField())).order_by("pk")
    copies = submit([Submission.copy(row, data=row.text) for row in rows], using=using)
    answers = dict.fromkeys((str(task) for task in ids), "not_found")
    return answers | {str(row.pk): str(copy.task_id) for row, copy in zip(rows, copies, strict=True)}


def cancel_by_operator(tasks: Seen[UUID], operator: Operator, *, using: str) -> Answers:
    """Cancel tasks as ``cancel`` does, where ``tasks`` maps id to revision each only at the one that the operator saw.

    Answers: cancelled, requested, terminal, moved_on (it ended, and was requeued since) or not_found.
    """
    decide = partial(cancel_by_operator_held, tasks, using=using)
    return record(operator, Kind.CANCEL, targets_of(tasks), decide, using=using)


def cancel_by_operator_held(tasks: Seen[UUID], *, using: str) -> Answers:
    """Cancel inside a transaction that the caller holds open."""
    seen = tasks if isinstance(tasks, Mapping) else None
    told = cancel_held(sorted(set(tasks)), seen=seen, using=using)
    return {str(task): told[task].value if task in told else "moved_on" for task in tasks}


def republish(tasks: Seen[UUID], operator: Operator, *, using: str) -> Answers:
    """Give queued tasks a new publication epoch, due now.

    ``tasks`` maps id to the generation that the operator saw. Answers: republished, moved_on (another generation) or
    not_queued.
    """
    decide = partial(republish_held, tasks, using=using)
    return record(operator, Kind.REPUBLISH, targets_of(tasks), decide, using=using)


def republish_held(tasks: Seen[UUID], *, using: str) -> Answers:
    """Republish inside a transaction that the caller holds open."""
    held, answers = lock_queued(tasks, using=using)
    rows = sql.run("republish_intents", using, {"tasks": held})
    hints.announce({queue for _, queue in rows}, using=using)
    return answers | dict.fromkeys(map(str, held), "republished")


def force_expire(tasks: Mapping[UUID, int | None], operator: Operator, *, using: str) -> Answers:
    """Fence off the owners of leases: their attempts end lost, whatever was left of the lease.

    ``tasks`` maps id to the attempt's number that the operator saw: a lease that was granted since is left alone. The
    program may still run; its result will be refused, its effects may happen twice. Answers: expired, moved_on (another
    attempt is active) or not_active.
    """
    decide = partial(force_expire_held, tasks, using=using)
    return record(operator, Kind.FORCE_EXPIRE, targets_of(tasks), decide, using=using)


def force_expire_held(tasks: Mapping[UUID, int | None], *, using: str) -> Answers:
    """Force leases to expire inside a transaction that the caller holds open."""
    held = sql.run("lock_leases_of_tasks", using, {"tasks": sorted(tasks)})
    expired = set(end_as_lost([row for row in held if row[1] == tasks[row[0]]], live=None, using=using))
    hints.announce_cancel(using=using)
    moved_on = {row[0] for row in held} - expired
    return {
        str(task): "expired" if task in expired else "moved_on" if task in moved_on else "not_active"
        for task in sorted(tasks)
    }
