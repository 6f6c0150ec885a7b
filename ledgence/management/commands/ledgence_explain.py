"""The explanation of a task as a command."""

import textwrap
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ledgence.conf import get_settings
from ledgence.explanation import Explanation, Line, explain
from ledgence.management.operating import OperatingCode, add_format, task_id, to_json
from ledgence.wording import visible
from ledgence_worker.errors import NotFound

WIDTH = 100


class Command(BaseCommand):
    help = "Say why a task is not running, or who runs it: facts from the database, each with what to do about it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("task", type=task_id, help="The task's id.")
        add_format(parser)

    def handle(self, *, task: UUID, format: str, **options: Any) -> None:
        try:
            explanation = explain(task, using=get_settings().database)
        except NotFound as error:
            raise CommandError(str(error), returncode=OperatingCode.REFUSED) from error
        if format == "json":
            self.stdout.write(to_json(asdict(explanation)))
            return
        self.stdout.write(f"Task {task}: {_state(explanation)}, revision {explanation.revision}.")
        for number, line in enumerate(explanation.lines, 1):
            for written in _write(number, line):
                self.stdout.write(written)


def _state(explanation: Explanation) -> str:
    return str(explanation.state.label) if explanation.state else "in no state"


def _write(number: int, line: Line) -> list[str]:
    """Put a line into the lines of a terminal: its sentence, what to do, and its code with the row that it is about."""
    head = f"{number:2}.{'!' if line.is_blocking else ' '} "
    rest = " " * len(head)
    about = f": {line.target.kind} {line.target.id or 'list'}" if line.target else ""
    return [
        *_wrap(line.text, head, rest),
        *(_wrap(line.advice, f"{rest}-> ", f"{rest}   ") if line.advice else ()),
        f"{rest}({line.code}{about})",
    ]


def _wrap(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        visible(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        # Options and ids stay whole.
        break_on_hyphens=False,
        break_long_words=False,
    )
