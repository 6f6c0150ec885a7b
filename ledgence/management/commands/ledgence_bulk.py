"""Applying one operator action by hand, where no housekeeping runs."""

from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ledgence.conf import get_settings
from ledgence.management.chunks import apply
from ledgence.management.logs import show_logs
from ledgence_worker.errors import NotFound


class Command(BaseCommand):
    help = (
        "Apply an operator action on thousands of rows, chunk by chunk, until it is done or stopped. Housekeeping does "
        "the same by itself; both may at once. It can be broken off and repeated."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", type=UUID, metavar="ID", help="the action's id, as its page tells it")

    def handle(self, **options: Any) -> None:
        show_logs()
        try:
            action = apply(options["action"], using=get_settings().database)
        except NotFound as error:
            raise CommandError(str(error)) from error
        skipped = sum((action.skipped or {}).values())
        self.stdout.write(f"state={action.state} matched={action.matched} changed={action.changed} skipped={skipped}")
