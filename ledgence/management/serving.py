"""What the commands have in common that run for ever under a service manager: a worker and a publisher."""

from typing import Any

from django.core.management.base import BaseCommand, SystemCheckError

from ledgence.checks import TAG
from ledgence_worker.stopping import ExitCode


class ServingCommand(BaseCommand):
    """A command that a service manager keeps alive. Checks that fail end it with the code of a wrong configuration."""

    # The project's other checks import its addresses, and with them views and programs, which these processes never
    # do: a worker's managed processes import programs. They stay with ``manage.py check``.
    requires_system_checks = (TAG,)

    def check(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().check(*args, **kwargs)
        except SystemCheckError as error:
            # Restarting does not help, and a service manager is told so by the code.
            error.returncode = ExitCode.CONFIGURATION
            raise
