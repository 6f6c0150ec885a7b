"""The housekeeping loop as a command."""

import signal
from contextlib import ExitStack
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ledgence.conf import get_settings
from ledgence.housekeeping import Housekeeping, record_turn
from ledgence.management.logs import show_logs
from ledgence.operations.expire import expire
from ledgence.operators_work import OperatorsWork
from ledgence.rollups import rollups
from ledgence_worker.errors import Busy, InvalidInput
from ledgence_worker.health import HealthServer
from ledgence_worker.limits import check_range
from ledgence_worker.stopping import ExitCode


class Command(BaseCommand):
    help = (
        "Keep house: end expired leases, so that their tasks run again, resume queues whose pause is over, and apply "
        "operator actions. For ever, or --once. Workers with a database do it too."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="Do what is due by now, and exit.")
        parser.add_argument("--health-port", type=int, default=None, metavar="P", help="serve /health on loopback")

    def handle(self, **options: Any) -> None:
        show_logs()
        using = get_settings().database
        if options["once"]:
            try:
                self.stdout.write(f"expired={expire(using=using)}")
                record_turn(using=using)
                rollups(using).write(unfinished=True)
                left = OperatorsWork(using)
                while left.turn():
                    pass
            except Busy as error:
                raise CommandError(str(error)) from error
            return
        housekeeping = Housekeeping(using)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: housekeeping.stop())
        with ExitStack() as stack:
            if options["health_port"] is not None:
                stack.callback(_serve_health(options["health_port"], housekeeping).close)
            housekeeping.run()


def _serve_health(port: int, housekeeping: Housekeeping) -> HealthServer:
    try:
        check_range("--health-port", port, 0, 65_535)
        return HealthServer(port, housekeeping)
    except InvalidInput as error:
        raise CommandError(str(error), returncode=ExitCode.CONFIGURATION) from error
