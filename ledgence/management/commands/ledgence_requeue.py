"""Requeue as a command."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import CommandParser

from ledgence.management.acting import ActingCommand
from ledgence.management.task_names import HELP, find_tasks
from ledgence.operations import operate
from ledgence.operations.actions import Answers, Operator


class Command(ActingCommand):
    help = (
        "Make failed and cancelled tasks ready again, with all their attempts anew. Effects outside the database that "
        "an earlier attempt had may happen twice."
    )
    metavar = "TASK"
    names_help = HELP
    unchanged = frozenset({"moved_on", "not_terminal", "succeeded", "not_found"})

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--as-copy",
            action="store_true",
            help="Submit a copy of each instead, linked to it, in whatever state it is; the answer is the copy's id.",
        )

    def find(self, names: Sequence[str], options: Mapping[str, Any], *, using: str) -> dict[str, Any]:
        return find_tasks(names, using=using)

    def perform(
        self, targets: Mapping[str, Any], operator: Operator, options: Mapping[str, Any], *, using: str
    ) -> Answers:
        if options["as_copy"]:
            return operate.requeue_as_copy([task for task, _ in targets.values()], operator, using=using)
        return operate.requeue({task: revision or 0 for task, revision in targets.values()}, operator, using=using)
