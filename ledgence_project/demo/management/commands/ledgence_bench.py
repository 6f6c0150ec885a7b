"""The benchmark as a command."""

import json
import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from ledgence.conf import get_settings
from ledgence_project.demo import benchmark
from ledgence_project.demo.scratch import scratch_database


class Command(BaseCommand):
    help = (
        "Measure submission, drain, latency, idle cost and CPU a task, on a database of its own that is dropped again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--tasks", type=int, default=20_000, metavar="N", help="tasks of each measurement")
        parser.add_argument("--slots", type=int, default=16, metavar="N", help="processes of the worker")
        parser.add_argument(
            "--grown", type=int, default=benchmark.GROWN, metavar="N", help="finished tasks to add; 0 leaves that out"
        )
        parser.add_argument(
            "--idle", type=float, default=20.0, metavar="S", help="seconds for which idle workers are watched"
        )
        parser.add_argument("--http", action="store_true", help="measure over HTTP as well")
        parser.add_argument(
            "--sqs", action="store_true", help="measure through ElasticMQ as well; make elasticmq fetches it"
        )
        parser.add_argument("--json", action="store_true", help="print nothing but the figures, on one line")

    def handle(self, **options: Any) -> None:
        # SIGTERM ends it as Ctrl-C does: with what it started and made cleared away.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        using = get_settings().database
        with scratch_database(using) as outside:
            figures = benchmark.run(
                using=using,
                outside=outside,
                tasks=options["tasks"],
                slots=options["slots"],
                grown=options["grown"],
                idle=options["idle"],
                http=options["http"],
                sqs=options["sqs"],
                say=(lambda _: None) if options["json"] else self.stderr.write,
            )
        self.stdout.write(json.dumps(figures.as_dict(), indent=None if options["json"] else 2))
