"""Requeue as a command."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import CommandParser

from ledgence.management.acting import ActingCommand
from ledgence.management.tasks import NAMES, act_on_tasks, read_tasks
from ledgence.models import OperatorAction
from ledgence.operations import operate
from ledgence.operations.actions import Answers, Operator

Kind = OperatorAction.Kind


class Command(ActingCommand):
    help = (
        "Make failed and cancelled tasks ready again, with all their attempts anew. Effects outside the database that "
        "an earlier attempt had may happen twice."
    )
    metavar = "TASK"
    names_help = NAMES

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--as-copy",
            action="store_true",
            help="Submit a copy of each instead, linked to it, in whatever state it is; the answer is the copy's id.",
        )

    def act(self, names: Sequence[str], operator: Operator, options: Mapping[str, Any], *, using: str) -> Answers:
        tasks = read_tasks(names)
        if options["as_copy"]:
            return act_on_tasks(tasks, Kind.COPY, operate.requeue_as_copy, operator, using=using)
        return act_on_tasks(tasks, Kind.REQUEUE, operate.requeue, operator, using=using)
