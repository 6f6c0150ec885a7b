"""Command line of the embedded database: run a command beside it, stop it, remove it."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from ledgence_project.embedded import ClusterFailed, held, remove, stop
from ledgence_project.embedded.environment import CHECKOUT, DATABASE, environment

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(arguments: Sequence[str]) -> int:
    """Carry out one action and return the exit status: the command's own, for run."""
    parser = argparse.ArgumentParser(prog="python -m ledgence_project.embedded", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    run_parser = actions.add_parser("run", help="run a command with DATABASE_URL set; an existing one is kept")
    run_parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")
    actions.add_parser("stop", help="stop the server, whoever uses it")
    actions.add_parser("remove", help="stop the server and delete its data")
    options = parser.parse_args(arguments)
    try:
        match options.action:
            case "run":
                command = options.command[1:] if options.command[:1] == ["--"] else options.command
                if not command:
                    run_parser.error("a command is needed after --")
                return run(command)
            case "stop":
                print("The embedded database is stopped." if stop(CHECKOUT) else "No embedded database is running.")
            case "remove":
                print("The embedded database is removed." if remove(CHECKOUT) else "There is no embedded database.")
    except ClusterFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def run(command: Sequence[str]) -> int:
    """Run a command beside the embedded server; with DATABASE_URL set, just run it."""
    if url := os.environ.get("DATABASE_URL"):
        os.execvpe(command[0], list(command), environment(url))
    # Until the command runs, a signal ends this process in order: the server that it may have started stops too.
    for number in FORWARDED:
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    with held(CHECKOUT) as cluster:
        cluster.create_database(DATABASE)
        return supervise(command, environment(cluster.url(DATABASE)))


def supervise(command: Sequence[str], variables: dict[str, str]) -> int:
    """Run a command, pass signals on to it, and return its exit status as a shell would."""
    try:
        process = subprocess.Popen(command, env=variables)
    except OSError as error:
        print(f"{shlex.join(command)}: {error.strerror}", file=sys.stderr)
        return 127

    def forward(number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGINT or not _from_terminal():
            process.send_signal(number)

    for number in FORWARDED:
        signal.signal(number, forward)
    status = process.wait()
    return status if status >= 0 else 128 - status


def _from_terminal() -> bool:
    """Return whether a SIGINT is the terminal's, which the command has got too: twice would force a draining worker."""
    try:
        with Path("/dev/tty").open() as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
