"""Resuming queues as a command."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.core.management.base import CommandParser

from ledgence.management.acting import ActingCommand
from ledgence.management.queues import NAMES, act_on_queues, add_scope
from ledgence.operations import queues
from ledgence.operations.actions import Answers, Operator


class Command(ActingCommand):
    help = "Resume queues: workers get their work again, and everything that is due may start at once."
    metavar = "QUEUE"
    names_help = NAMES

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add_scope(parser)

    def act(self, names: Sequence[str], operator: Operator, options: Mapping[str, Any], *, using: str) -> Answers:
        return act_on_queues(names, options, partial(queues.resume, operator=operator, using=using), using=using)
