"""Applying one operator action by hand, where no housekeeping runs."""

import time
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ledgence.conf import get_settings
from ledgence.management.logs import show_logs
from ledgence.models import OperatorAction
from ledgence.operations.bulk import Bulk

#: How long to wait for rows that somebody's transaction holds, or that another process has taken.
PAUSE_SECONDS = 1.0


class Command(BaseCommand):
    help = (
        "Apply an operator action on thousands of rows, chunk by chunk, until it is done or stopped. Housekeeping does "
        "the same by itself; both may at once. It can be broken off and repeated."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", type=UUID, metavar="ID", help="the action's id, as its page tells it")

    def handle(self, **options: Any) -> None:
        show_logs()
        using = get_settings().database
        action = self._find(options["action"], using)
        bulk = Bulk(using)
        while action.state == OperatorAction.State.RUNNING:
            if not bulk.turn(only=action.pk):
                action = self._find(action.pk, using)
                if action.state == OperatorAction.State.RUNNING:
                    time.sleep(PAUSE_SECONDS)
        skipped = sum((action.skipped or {}).values())
        self.stdout.write(f"state={action.state} matched={action.matched} changed={action.changed} skipped={skipped}")

    def _find(self, action_id: UUID, using: str) -> OperatorAction:
        action = OperatorAction.objects.using(using).filter(pk=action_id).first()
        if action is None:
            raise CommandError(f"There is no operator action {action_id}.")
        return action
