"""How commands act on tasks: few in one transaction, thousands chunk by chunk."""

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from ledgence.management.chunks import apply
from ledgence.management.operating import wrong_usage
from ledgence.models import OperatorAction, OperatorActionTarget, Task
from ledgence.operations.actions import TARGETS_MAX, Answers, Operator
from ledgence.operations.bulk import begin_bulk

NAMES = "A task's id, or - for those on the standard input. ID:REVISION acts only at the revision that you saw."
#: Told of a row before whose turn somebody stopped the action.
NOT_REACHED = "not_reached"

#: Tasks, each with the revision that was seen; None: none was given.
type Seen = dict[UUID, int | None]


def read_tasks(names: Sequence[str]) -> Seen:
    """Return the tasks of these names. Raises CommandError for what is no id, and for a task that is named twice."""
    seen = dict(map(_read, names))
    if len(seen) < len(names):
        raise wrong_usage("A task is named twice, in two ways; nothing was changed.")
    return seen


def _read(name: str) -> tuple[UUID, int | None]:
    task, _, revision = name.partition(":")
    try:
        if revision and not (revision.isascii() and revision.isdecimal() and len(revision) < 10):
            raise ValueError(revision)
        return UUID(task), int(revision) if revision else None
    except ValueError as error:
        raise wrong_usage(f"{name!r} is neither a task's id nor ID:REVISION; nothing was changed.") from error


def _as_they_are(tasks: Seen, *, using: str) -> Seen:
    """Add the present revision where none was given; None stays for what does not exist."""
    present = dict(Task.objects.using(using).filter(pk__in=tasks).values_list("pk", "revision"))
    return {task: present.get(task) if revision is None else revision for task, revision in tasks.items()}


def act_on_tasks(
    tasks: Seen, kind: OperatorAction.Kind, perform: Callable[..., Answers], operator: Operator, *, using: str
) -> Answers:
    """Perform an operation on up to TARGETS_MAX tasks at once, on more as on the pages: begun, and applied in chunks.

    Returns the answers by id, in the order of the tasks. Raises CommandError, and what the operation raises.
    """
    if len(tasks) <= TARGETS_MAX:
        answers: Mapping[str, str] = perform(_as_they_are(tasks, using=using), operator, using=using)
    else:
        if any(revision is not None for revision in tasks.values()):
            raise wrong_usage(f"More than {TARGETS_MAX:,} tasks are acted on as they are now: leave the revisions out.")
        begin_bulk(kind, list(tasks), operator, scope={}, using=using)
        apply(operator.action_id, using=using)
        rows = OperatorActionTarget.objects.using(using).filter(action=operator.action_id)
        answers = dict(rows.values_list("target", "answer"))
    return {str(task): answers[str(task)] or NOT_REACHED for task in tasks}
