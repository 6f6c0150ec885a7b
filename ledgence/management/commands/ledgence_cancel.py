"""Cancellation as a command."""

from collections.abc import Mapping, Sequence
from typing import Any

from ledgence.management.acting import ActingCommand
from ledgence.management.task_names import HELP, find_tasks
from ledgence.operations import operate
from ledgence.operations.actions import Answers, Operator


class Command(ActingCommand):
    help = (
        "Cancel tasks: a queued one ends at once and is not run; an active one is asked to stop, and ends cancelled "
        "whatever its program does."
    )
    metavar = "TASK"
    names_help = HELP
    unchanged = frozenset({"terminal", "not_found"})

    def find(self, names: Sequence[str], options: Mapping[str, Any], *, using: str) -> dict[str, Any]:
        return find_tasks(names, using=using)

    def perform(
        self, targets: Mapping[str, Any], operator: Operator, options: Mapping[str, Any], *, using: str
    ) -> Answers:
        return operate.cancel_by_operator([task for task, _ in targets.values()], operator, using=using)
