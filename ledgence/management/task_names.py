"""How tasks are named on the command line: by id, and, where that matters, at the revision that was seen."""

from collections.abc import Sequence
from uuid import UUID

from django.core.management.base import CommandError

from ledgence.management.operating import OperatingCode
from ledgence.models import Task

HELP = "A task's id, or - for those on the standard input. ID:REVISION acts only at the revision that you saw."


def find_tasks(names: Sequence[str], *, using: str) -> dict[str, tuple[UUID, int | None]]:
    """Return id and revision of tasks by their names: the revision that is given, else the present one.

    None stands for a task that does not exist. Raises CommandError for what is no id.
    """
    seen = dict(map(_read, names))
    if len(seen) < len(names):
        raise _usage("A task is named twice, in two ways; nothing was changed.")
    rows = Task.objects.using(using).filter(pk__in=seen.keys()).values_list("pk", "revision")
    present = dict(rows)
    return {str(task): (task, present.get(task) if revision is None else revision) for task, revision in seen.items()}


def _read(name: str) -> tuple[UUID, int | None]:
    task, _, revision = name.partition(":")
    try:
        if revision and not (revision.isascii() and revision.isdecimal() and len(revision) < 10):
            raise ValueError(revision)
        return UUID(task), int(revision) if revision else None
    except ValueError as error:
        raise _usage(f"{name!r} is neither a task's id nor ID:REVISION; nothing was changed.") from error


def _usage(text: str) -> CommandError:
    return CommandError(text, returncode=OperatingCode.USAGE)
