"""Pausing queues as a command."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django.core.management.base import CommandParser

from ledgence.management.acting import ActingCommand
from ledgence.management.operating import wrong_usage
from ledgence.management.queues import NAMES, act_on_queues, add_scope
from ledgence.operations import queues
from ledgence.operations.actions import Answers, Operator


class Command(ActingCommand):
    help = "Pause queues: workers get no more work of them. Attempts that run go on; new tasks are accepted and wait."
    metavar = "QUEUE"
    names_help = NAMES

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add_scope(parser)
        parser.add_argument(
            "--until",
            type=datetime.fromisoformat,
            metavar="ISO",
            help="When housekeeping resumes them, with its time zone. Default: when somebody does.",
        )

    def act(self, names: Sequence[str], operator: Operator, options: Mapping[str, Any], *, using: str) -> Answers:
        until: datetime | None = options["until"]
        if until is not None and until.tzinfo is None:
            raise wrong_usage(f"--until {until.isoformat()} has no time zone: add Z or +02:00. Nothing was changed.")
        perform = partial(queues.pause, operator=operator, until=until, using=using)
        return act_on_queues(names, options, perform, using=using)
