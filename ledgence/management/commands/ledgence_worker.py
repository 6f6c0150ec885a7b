"""The worker as a command: the execution side of Ledgence over this project's database and programs."""

from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ledgence.conf import get_settings
from ledgence.foreground import EndRefused, NotStarted, run_once
from ledgence.housekeeping import Housekeeping
from ledgence.management.logs import show_logs
from ledgence.management.serving import ServingCommand
from ledgence.service import DatabaseTaskService
from ledgence_worker.connect import service_of
from ledgence_worker.delivery.config import Route
from ledgence_worker.errors import LedgenceError
from ledgence_worker.options import EXIT_CODES, add_options, pool_options, worker_settings
from ledgence_worker.pool_settings import PoolSettings
from ledgence_worker.processes import ProcessPool
from ledgence_worker.routing import served_routes
from ledgence_worker.settings import WorkerSettings
from ledgence_worker.stopping import ExitCode
from ledgence_worker.worker import Worker

BOOTSTRAP = "ledgence.bootstrap:load_programs"


class Command(ServingCommand):
    help = f"Run tasks. Each runs in a managed process of its own; SIGTERM drains, a second one forces. {EXIT_CODES}"

    def add_arguments(self, parser: CommandParser) -> None:
        add_options(parser)
        source = parser.add_mutually_exclusive_group()
        source.add_argument(
            "--server", default=None, metavar="URL", help="get work from this task service, not from the database"
        )
        source.add_argument("--once", default=None, metavar="TASK", help="run one queued task here, for a debugger")

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
            worker = worker_settings(options, tenant=settings.tenant, namespace=settings.namespace)
            routes = served_routes(options["delivery_config"], worker)
            pool = ProcessPool(_pool_settings(options))
            code = _run_remote(options, pool, worker, routes) if options["server"] else _run(pool, worker, routes)
        except LedgenceError as error:
            raise CommandError(str(error), returncode=ExitCode.CONFIGURATION) from error
        if code:
            raise SystemExit(code)


def _run(pool: ProcessPool, settings: WorkerSettings, routes: Sequence[Route]) -> int:
    using = get_settings().database
    housekeeping = Housekeeping(using)
    housekeeping.start()
    try:
        service = DatabaseTaskService(using)
        worker = Worker(service, pool, settings, routes=routes)
        service.on_cancel = worker.renew_now
        return worker.run()
    finally:
        housekeeping.close()


def _run_remote(options: dict[str, Any], pool: ProcessPool, settings: WorkerSettings, routes: Sequence[Route]) -> int:
    # Housekeeping is done where the database is.
    service = service_of(options["server"], options["answer_timeout"])
    return Worker(service, pool, settings, routes=routes).run()


def _pool_settings(options: dict[str, Any]) -> PoolSettings:
    settings = get_settings()
    return PoolSettings(
        bootstrap=BOOTSTRAP,
        env_allow=tuple(settings.child_env),
        **pool_options(options),
    )
