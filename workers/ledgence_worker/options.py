"""The options of a worker on a command line: the same ones for a Django command and for a worker without Django."""

import socket
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from ledgence_worker import limits
from ledgence_worker.http_service import ANSWER_SECONDS
from ledgence_worker.settings import RECEIVE_WAIT_SECONDS, WorkerSettings

#: How it ends, for the help text of each command.
EXIT_CODES = "Exit codes: 0 clean, 1 forced or an attempt left to expire, 2 cannot start, 3 session refused or failed."


def add_options(parser: ArgumentParser) -> None:
    """Add the options that say what a worker serves and how."""
    add = parser.add_argument
    add("--concurrency", type=int, default=4, metavar="N", help="processes at most (default 4)")
    add("--queue", action="append", default=[], metavar="Q", help="serve only this queue; repeatable")
    add("--exclude-queue", action="append", default=[], metavar="Q", help="serve all queues but this; repeatable")
    add("--name", default="", help="a name for people (default: the host's)")
    add("--grace", type=float, default=25.0, metavar="S", help="seconds to finish after SIGTERM (default 25)")
    add("--max-tasks-per-child", type=int, default=None, metavar="N", help="replace a process after N attempts")
    add("--max-rss", type=int, default=None, metavar="MB", help="replace a process above this resident memory")
    add(
        "--idle-timeout",
        type=float,
        default=300.0,
        metavar="S",
        help="end a process that has rested for S seconds, but for the last one (default 300)",
    )
    add("--drain", action="store_true", help="exit 0 once nothing is queued or running")
    add(
        "--acquire-wait",
        type=float,
        default=limits.WAIT_SECONDS_MAX,
        metavar="S",
        help="seconds one request for work may wait (default 20)",
    )
    add(
        "--delivery-config",
        default=None,
        metavar="FILE",
        help="take the work of queues that it routes from their brokers",
    )
    add(
        "--receive-wait",
        type=float,
        default=RECEIVE_WAIT_SECONDS,
        metavar="S",
        help="with --delivery-config: seconds one request for messages may wait (default 10)",
    )
    add(
        "--answer-timeout",
        type=float,
        default=ANSWER_SECONDS,
        metavar="S",
        help="with --server: seconds until a command without an answer is sent again, beside a wait (default 10)",
    )
    add("--health-port", type=int, default=None, metavar="P", help="serve /health on loopback")


def worker_settings(options: Mapping[str, Any], *, tenant: str, namespace: str) -> WorkerSettings:
    """Return what the options say about the worker. Raises InvalidInput."""
    return WorkerSettings(
        name=options["name"] or socket.gethostname(),
        concurrency=options["concurrency"],
        tenant=tenant,
        namespace=namespace,
        queues=tuple(options["queue"]),
        exclude_queues=tuple(options["exclude_queue"]),
        grace_seconds=options["grace"],
        acquire_wait_seconds=options["acquire_wait"],
        receive_wait_seconds=options["receive_wait"],
        drain=options["drain"],
        health_port=options["health_port"],
    )


def pool_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the options say about the processes, as members of PoolSettings."""
    megabytes = options["max_rss"]
    return {
        "concurrency": options["concurrency"],
        "max_tasks_per_child": options["max_tasks_per_child"],
        "max_rss_bytes": megabytes * 1024 * 1024 if megabytes is not None else None,
        "idle_seconds": options["idle_timeout"],
    }
