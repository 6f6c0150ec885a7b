"""The demonstration: thousands of real tasks, a killed worker, and a check of everything afterwards."""

import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ledgence_project.demo.demonstration import Demonstration, Hopeless


class Command(BaseCommand):
    help = "Parse every file of Python's library and site-packages in two workers, kill one, and check the results."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--concurrency", type=int, default=3, metavar="N", help="processes of each worker")
        parser.add_argument("--files", type=int, default=None, metavar="N", help="at most this many files")
        parser.add_argument("--timeout", type=float, default=600.0, metavar="S", help="give up after S seconds")

    def handle(self, **options: Any) -> None:
        # SIGTERM ends it as Ctrl-C does: with what it started and made cleared away.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with TemporaryDirectory(prefix="ledgence-effects-") as folder:
            demonstration = Demonstration(
                effects=Path(folder),
                concurrency=options["concurrency"],
                timeout_seconds=options["timeout"],
                say=self.stdout.write,
            )
            try:
                verdict = demonstration.run(options["files"])
            except Hopeless as error:
                raise CommandError(str(error)) from error
        if verdict.problems:
            for problem in verdict.problems:
                self.stderr.write(problem)
            raise CommandError(f"demo failed: {verdict.summary}")
        self.stdout.write(f"demo ok: {verdict.summary}")
