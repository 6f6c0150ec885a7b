"""What operators change of queued work: when it is due, in which queue it waits, and before what."""

from collections.abc import Mapping
from functools import partial
from uuid import UUID

from ledgence import hints, sql
from ledgence.models import OperatorAction
from ledgence.operations.actions import Answers, Operator, Seen, record, targets_of
from ledgence_worker import limits
from ledgence_worker.identifiers import check_identifier

Kind = OperatorAction.Kind


def run_now(tasks: Seen[UUID], operator: Operator, *, using: str) -> Answers:
    """Make queued tasks that are for later due now; work of an external queue is announced at once.

    ``tasks`` maps id to the generation that the operator saw. Answers: due, already (it was), moved_on (another
    generation) or not_queued.
    """
    decide = partial(run_now_held, tasks, using=using)
    return record(operator, Kind.RUN_NOW, targets_of(tasks), decide, using=using)


def run_now_held(tasks: Seen[UUID], *, using: str) -> Answers:
    """Run now inside a transaction that the caller holds open."""
    held, answers = lock_queued(tasks, using=using)
    rows = sql.run("hasten_intents", using, {"tasks": held})
    hints.announce({queue for _, queue in rows}, using=using)
    due = {task for task, _ in rows}
    return answers | {str(task): "due" if task in due else "already" for task in held}


def move(tasks: Seen[UUID], operator: Operator, *, queue: str, using: str) -> Answers:
    """Let queued tasks wait in another queue, which exists in the tenant and namespace of each.

    Time and priority stay. Into an external queue it is a new publication, out of one the old messages are void: who
    claims one is told that it is superseded, or gets the work if it serves the other queue too. ``tasks`` maps id to
    the generation that the operator saw. Answers: moved, already (it waits there), no_such_queue, moved_on (another
    generation) or not_queued. Raises InvalidInput for a name that no queue can have.
    """
    check_queue(queue=queue)
    decide = partial(move_held, tasks, queue=queue, using=using)
    return record(operator, Kind.MOVE, targets_of(tasks), decide, parameters={"queue": queue}, using=using)


def move_held(tasks: Seen[UUID], *, queue: str, using: str) -> Answers:
    """Move inside a transaction that the caller holds open."""
    held, answers = lock_queued(tasks, using=using)
    rows = sql.run("move_intents", using, {"tasks": held, "queue": queue})
    hints.announce({target for _, target, is_moved in rows if is_moved}, using=using)
    told = {task: "moved" if is_moved else "already" for task, _, is_moved in rows}
    return answers | {str(task): told.get(task, "no_such_queue") for task in held}


def set_priority(tasks: Seen[UUID], operator: Operator, *, priority: int, using: str) -> Answers:
    """Give queued tasks a priority, which later attempts keep.

    ``tasks`` maps id to the generation that the operator saw. Answers: set, already (it has it), moved_on (another
    generation) or not_queued. Raises InvalidInput for a priority that is out of range.
    """
    check_priority(priority=priority)
    decide = partial(set_priority_held, tasks, priority=priority, using=using)
    return record(
        operator, Kind.SET_PRIORITY, targets_of(tasks), decide, parameters={"priority": priority}, using=using
    )


def set_priority_held(tasks: Seen[UUID], *, priority: int, using: str) -> Answers:
    """Set the priority inside a transaction that the caller holds open."""
    held, answers = lock_queued(tasks, using=using)
    rows = sql.run("set_priority", using, {"tasks": held, "priority": priority})
    hints.announce({queue for _, queue in rows}, using=using)
    changed = {task for task, _ in rows}
    return answers | {str(task): "set" if task in changed else "already" for task in held}


def check_queue(*, queue: str) -> None:
    """Refuse a name that no queue can have. Raises InvalidInput."""
    check_identifier(queue, what="move: queue")


def check_priority(*, priority: int) -> None:
    """Refuse a priority that is out of range. Raises InvalidInput."""
    limits.check_range("set priority: priority", priority, limits.PRIORITY_MIN, limits.PRIORITY_MAX)


def lock_queued(tasks: Seen[UUID], *, using: str) -> tuple[list[UUID], Answers]:
    """Lock the intents of tasks, and return those that are as they were seen, and the answers of the others."""
    ids = sorted(set(tasks))
    generations = {row[0]: row[1] for row in sql.run("lock_intents", using, {"tasks": ids})}
    seen: Mapping[UUID, int | None] = tasks if isinstance(tasks, Mapping) else generations
    held = [task for task in ids if task in generations and generations[task] == seen[task]]
    rest = set(ids).difference(held)
    return held, {str(task): "moved_on" if task in generations else "not_queued" for task in rest}
