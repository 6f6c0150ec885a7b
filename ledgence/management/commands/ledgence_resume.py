"""Resuming queues as a command."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import CommandParser

from ledgence.management.acting import ActingCommand, add_scope, find_queues
from ledgence.operations import queues
from ledgence.operations.actions import Answers, Operator


class Command(ActingCommand):
    help = "Resume queues: workers get their work again, and everything that is due may start at once."
    metavar = "QUEUE"
    names_help = "A queue's name, or - for those on the standard input."
    unchanged = frozenset({"already", "not_found"})

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add_scope(parser)

    def find(self, names: Sequence[str], options: Mapping[str, Any], *, using: str) -> dict[str, Any]:
        return dict(find_queues(names, options, using=using))

    def perform(
        self, targets: Mapping[str, Any], operator: Operator, options: Mapping[str, Any], *, using: str
    ) -> Answers:
        answers = queues.resume([queue.pk for queue in targets.values()], operator, using=using)
        return {name: answers[str(queue.pk)] for name, queue in targets.items()}
