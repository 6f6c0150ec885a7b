"""Cancellation as a command."""

from collections.abc import Mapping, Sequence
from typing import Any

from ledgence.management.acting import ActingCommand
from ledgence.management.tasks import NAMES, act_on_tasks, read_tasks
from ledgence.models import OperatorAction
from ledgence.operations import operate
from ledgence.operations.actions import Answers, Operator


class Command(ActingCommand):
    help = (
        "Cancel tasks: a queued one ends at once and is not run; an active one is asked to stop, and ends cancelled "
        "whatever its program does."
    )
    metavar = "TASK"
    names_help = NAMES

    def act(self, names: Sequence[str], operator: Operator, options: Mapping[str, Any], *, using: str) -> Answers:
        tasks = read_tasks(names)
        return act_on_tasks(tasks, OperatorAction.Kind.CANCEL, operate.cancel_by_operator, operator, using=using)
