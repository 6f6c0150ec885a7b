"""The worker as a command: the execution side of Ledgence over this project's database and programs."""

import socket
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser, SystemCheckError

from ledgence.conf import get_settings
from ledgence.foreground import EndRefused, NotStarted, run_once
from ledgence.housekeeping import Housekeeping
from ledgence.management.logs import show_logs
from ledgence.service import DatabaseTaskService
from ledgence_worker import limits
from ledgence_worker.errors import LedgenceError
from ledgence_worker.pool_settings import PoolSettings
from ledgence_worker.processes import ProcessPool
from ledgence_worker.settings import WorkerSettings
from ledgence_worker.stopping import ExitCode
from ledgence_worker.worker import Worker

BOOTSTRAP = "ledgence.bootstrap:load_programs"


class Command(BaseCommand):
    help = (
        "Run tasks. Each runs in a managed process of its own; SIGTERM drains, a second one forces. "
        "Exit codes: 0 clean, 1 forced or an attempt left to expire, 2 cannot start, 3 session expired or failed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--concurrency", type=int, default=4, metavar="N", help="processes at most (default 4)")
        parser.add_argument(
            "--queue", action="append", default=[], metavar="Q", help="serve only this queue; repeatable"
        )
        parser.add_argument(
            "--exclude-queue", action="append", default=[], metavar="Q", help="serve all queues but this; repeatable"
        )
        parser.add_argument("--name", default="", help="a name for people (default: the host's)")
        parser.add_argument(
            "--grace", type=float, default=25.0, metavar="S", help="seconds to finish after SIGTERM (default 25)"
        )
        parser.add_argument(
            "--max-tasks-per-child", type=int, default=None, metavar="N", help="replace a process after N attempts"
        )
        parser.add_argument(
            "--max-rss", type=int, default=None, metavar="MB", help="replace a process above this resident memory"
        )
        parser.add_argument("--drain", action="store_true", help="exit 0 once nothing is queued or running")
        parser.add_argument(
            "--acquire-wait",
            type=float,
            default=limits.WAIT_SECONDS_MAX,
            metavar="S",
            help="seconds one request for work may wait (default 20)",
        )
        parser.add_argument("--health-port", type=int, default=None, metavar="P", help="serve /health on loopback")
        parser.add_argument("--once", default=None, metavar="TASK", help="run one queued task here, for a debugger")

    def check(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().check(*args, **kwargs)
        except SystemCheckError as error:
            # Restarting does not help, and a service manager is told so by the code.
            error.returncode = ExitCode.CONFIGURATION
            raise

    def handle(self, **options: Any) -> None:
        show_logs()
        settings = get_settings()
        if options["once"]:
            try:
                self.stdout.write(run_once(options["once"], using=settings.database))
            except (NotStarted, EndRefused) as error:
                raise CommandError(str(error)) from error
            return
        try:
            worker_settings = WorkerSettings(
                name=options["name"] or socket.gethostname(),
                concurrency=options["concurrency"],
                tenant=settings.tenant,
                namespace=settings.namespace,
                queues=tuple(options["queue"]),
                exclude_queues=tuple(options["exclude_queue"]),
                grace_seconds=options["grace"],
                acquire_wait_seconds=options["acquire_wait"],
                drain=options["drain"],
                health_port=options["health_port"],
            )
            pool = ProcessPool(_pool_settings(options))
        except LedgenceError as error:
            raise CommandError(str(error), returncode=ExitCode.CONFIGURATION) from error
        housekeeping = Housekeeping(settings.database)
        housekeeping.start()
        try:
            service = DatabaseTaskService(settings.database)
            worker = Worker(service, pool, worker_settings)
            service.on_cancel = worker.renew_now
            code = worker.run()
        finally:
            housekeeping.close()
        if code:
            raise SystemExit(code)


def _pool_settings(options: dict[str, Any]) -> PoolSettings:
    settings = get_settings()
    megabytes = options["max_rss"]
    return PoolSettings(
        concurrency=options["concurrency"],
        bootstrap=BOOTSTRAP,
        env_allow=tuple(settings.child_env),
        # An attempt keeps its lease for the clean-up allowance. Less what a renewal may take to tell of a cancellation,
        # that is what a program has between SIGTERM and SIGKILL, or its end would come too late to be accepted.
        kill_after_seconds=min(5.0, settings.cleanup_seconds / 3),
        max_tasks_per_child=options["max_tasks_per_child"],
        max_rss_bytes=megabytes * 1024 * 1024 if megabytes is not None else None,
    )
