"""Cancellation: a queued task ends at once, an active one is asked to stop."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from uuid import UUID

from django.db import transaction

from ledgence import hints, sql
from ledgence.conf import get_settings
from ledgence.models import Task
from ledgence.transitions import transition
from ledgence_worker.errors import Busy

ROUNDS = 5


class CancelStatus(StrEnum):
    """The answer for one task."""

    # It was queued, and is terminal now.
    CANCELLED = "cancelled"
    # It is active: recorded on its lease; it will end cancelled, whatever its program does.
    REQUESTED = "requested"
    # It was terminal before.
    TERMINAL = "terminal"
    NOT_FOUND = "not_found"


def cancel(tasks: Sequence[UUID], *, using: str) -> dict[UUID, CancelStatus]:
    """Cancel tasks, atomically. Repeating it changes nothing more.

    A task may move from intent to lease and back between two statements, so undecided ones get another round; after
    five the call raises Busy with nothing written.
    """
    with transition(using, what="cancel"):
        return cancel_held(tasks, using=using)


def cancel_held(
    tasks: Sequence[UUID], *, using: str, seen: Mapping[UUID, int | None] | None = None
) -> dict[UUID, CancelStatus]:
    """Cancel inside a transaction that the caller holds open.

    With ``seen``, tasks that are queued or active at another revision than that are left alone, and left out.
    """
    wanted = sorted(set(tasks))
    for _ in range(ROUNDS):
        try:
            # A round that decides nothing gives its locks back before the next one, or it would take them out of order.
            with transaction.atomic(using=using):
                return _cancel_once(wanted, seen, using=using)
        except _Undecided:
            continue
    raise Busy(f"cancel: {len(wanted)} tasks kept changing hands; nothing was written. Repeat it.")


class _Undecided(Exception):
    """A task had neither intent nor lease nor outcome when each was looked at: it moved in between."""


def _cancel_once(wanted: list[UUID], seen: Mapping[UUID, int | None] | None, *, using: str) -> dict[UUID, CancelStatus]:
    queued = [row[0] for row in sql.run("lock_intents", using, {"tasks": wanted})]
    rest = [task for task in wanted if task not in set(queued)]
    active = [row[0] for row in sql.run("lock_leases_of_tasks", using, {"tasks": rest})] if rest else []
    rest = [task for task in rest if task not in set(active)]
    answers = _explain(rest, using=using)
    if seen is not None:
        queued, active = (_as_seen(held, seen, using=using) for held in (queued, active))
    if queued:
        sql.run("cancel_intents", using, {"tasks": queued})
    if active:
        parameters = {"tasks": active, "cleanup_seconds": get_settings().cleanup_seconds}
        sql.run("request_cancel", using, parameters)
        hints.announce_cancel(using=using)
    answers |= dict.fromkeys(queued, CancelStatus.CANCELLED) | dict.fromkeys(active, CancelStatus.REQUESTED)
    return {task: answers[task] for task in wanted if task in answers}


def _as_seen(held: list[UUID], seen: Mapping[UUID, int | None], *, using: str) -> list[UUID]:
    """Return the tasks at the revision that was seen: while their intents or leases are held, none changes."""
    revisions = dict(Task.objects.using(using).filter(pk__in=held).values_list("pk", "revision"))
    return [task for task in held if revisions[task] == seen[task]]


def _explain(tasks: list[UUID], *, using: str) -> dict[UUID, CancelStatus]:
    """Tell of tasks without intent and lease, in a new snapshot. Raises _Undecided for one that is not terminal."""
    if not tasks:
        return {}
    outcomes = dict(Task.objects.using(using).filter(pk__in=tasks).values_list("pk", "outcome"))
    if any(outcome is None for outcome in outcomes.values()):
        raise _Undecided
    return {task: CancelStatus.TERMINAL if task in outcomes else CancelStatus.NOT_FOUND for task in tasks}
