"""The command ``ledgence-worker connect``: a worker that needs nothing of the task service but its address."""

import logging
import os
import sys
from argparse import ArgumentParser, Namespace
from typing import Final

from ledgence_worker.bootstrap import MODULES_VARIABLE
from ledgence_worker.errors import InvalidInput, LedgenceError
from ledgence_worker.http_service import HttpTaskService
from ledgence_worker.options import EXIT_CODES, add_options, pool_options, worker_settings
from ledgence_worker.pool_settings import PoolSettings
from ledgence_worker.processes import ProcessPool
from ledgence_worker.routing import served_routes
from ledgence_worker.stopping import ExitCode
from ledgence_worker.worker import Worker

#: Where the token stands: a command line is there for everyone on the machine to read.
TOKEN_VARIABLE: Final = "LEDGENCE_TOKEN"  # noqa: S105 - the name of a variable
BOOTSTRAP: Final = "ledgence_worker.bootstrap:import_modules"


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    # An installed command does not look where it was started, and that is where its user's modules are.
    sys.path.insert(0, os.getcwd())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        worker = _compose(options)
    except LedgenceError as error:
        print(f"ledgence-worker: {error}", file=sys.stderr)  # noqa: T201 - its answer to whoever started it
        return ExitCode.CONFIGURATION
    return worker.run()


def service_of(url: str, answer_seconds: float) -> HttpTaskService:
    """Return the task service at an address, with the token of the environment. Raises InvalidInput."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise InvalidInput(f"set {TOKEN_VARIABLE} to a token with the role work.")
    return HttpTaskService(url, token, answer_seconds=answer_seconds)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="ledgence-worker", description="Workers of Ledgence on machines without its database.")
    commands = parser.add_subparsers(required=True, metavar="connect")
    connect = commands.add_parser(
        "connect",
        help="run tasks of a task service",
        description=f"Run tasks of a task service. SIGTERM drains, a second one forces. {EXIT_CODES}",
        epilog=f"The token, with the role work, is read from {TOKEN_VARIABLE}.",
    )
    add_connect_options(connect)
    add_options(connect)
    return parser


def add_connect_options(parser: ArgumentParser) -> None:
    """Add the options that only a worker without Django has."""
    add = parser.add_argument
    add("--server", required=True, metavar="URL", help="where the task service is: what stands before /ledgence/v1/")
    add(
        "--import",
        dest="modules",
        action="append",
        required=True,
        metavar="MODULE",
        help="import this module, which registers programs; repeatable",
    )
    add("--env", action="append", default=[], metavar="NAME", help="pass this variable on to programs; repeatable")


def _compose(options: Namespace) -> Worker:
    given = vars(options)
    for module in options.modules:
        if not all(part.isidentifier() for part in module.split(".")):
            raise InvalidInput(f"--import {module!r} is not the name of a module.")
    pool = PoolSettings(
        bootstrap=BOOTSTRAP,
        env_allow=tuple(options.env),
        environment={MODULES_VARIABLE: ",".join(options.modules)},
        **pool_options(given),
    )
    # The task service knows by the token which tenant and namespace this is.
    settings = worker_settings(given, tenant="default", namespace="default")
    routes = served_routes(options.delivery_config, settings)
    return Worker(service_of(options.server, options.answer_timeout), ProcessPool(pool), settings, routes=routes)


if __name__ == "__main__":
    sys.exit(main())
