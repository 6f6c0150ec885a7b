"""The publisher as a command: announces due work of external queues to their brokers."""

import signal
from contextlib import ExitStack
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ledgence.conf import get_settings
from ledgence.management.logs import show_logs
from ledgence.management.operating import make_operator
from ledgence.management.serving import ServingCommand
from ledgence.publishing.process import PublisherProcess
from ledgence_worker.delivery.config import read_routes
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable, Busy, Conflict, InvalidInput, Unavailable
from ledgence_worker.health import HealthServer
from ledgence_worker.limits import check_range
from ledgence_worker.stopping import ExitCode


class Command(ServingCommand):
    help = (
        "Route queues to the physical queues of a configuration, and publish their due work there: for ever, or once. "
        "SIGTERM ends it when what is being sent is recorded. Exit code 2: a route cannot be used, and none was made."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--delivery-config", required=True, metavar="FILE", help="the routes, as TOML or JSON")
        parser.add_argument(
            "--once",
            action="store_true",
            help="Publish what is due now, and exit: 0 when all of it was confirmed, 1 otherwise.",
        )
        parser.add_argument("--health-port", type=int, default=None, metavar="P", help="serve /health on loopback")

    def handle(self, **options: Any) -> None:
        show_logs()
        try:
            process = PublisherProcess(
                read_routes(options["delivery_config"]),
                operator=make_operator("a publisher starts with a route of it"),
                using=get_settings().database,
                once=options["once"],
            )
            with ExitStack() as stack:
                for number in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(number, lambda *_: process.stop())
                if options["health_port"] is not None:
                    check_range("--health-port", options["health_port"], 0, 65_535)
                    stack.callback(HealthServer(options["health_port"], process).close)
                is_clean = process.run()
        except (BrokerRefused, Conflict, InvalidInput) as error:
            raise CommandError(str(error), returncode=ExitCode.CONFIGURATION) from error
        except (BrokerUnavailable, Busy, Unavailable) as error:
            raise CommandError(str(error)) from error
        if options["once"] and not is_clean:
            raise CommandError("Not all that is due was confirmed; see the log and the delivery events.")
