"""Programs for workers without Django; like the others, each first writes to the effect log that it has started."""

import signal
import time
from pathlib import Path
from typing import Any

from ledgence_project.demo.effects import record_start
from ledgence_worker import Context, program

POLL_SECONDS = 0.01


# Any, here and below: an event has no type for its data, and a program may return whatever it likes.
def plain(name: str) -> Any:
    """Register a program, which records its start before anything else."""

    def register(function: Any) -> Any:
        def run(event: Any, context: Context) -> Any:
            record_start(context.task_id, context.number)
            return function(event.get_data(), context)

        run.__qualname__ = function.__qualname__
        return program(name, version="1", queue="zoo")(run)

    return register


def keep_beating(gate: Path, context: Context) -> None:
    with gate.with_name(f"beat-{context.task_id}.{context.number}").open("a", buffering=1) as beats:
        while not gate.exists():
            beats.write(f"{time.time()}\n")
            time.sleep(POLL_SECONDS)


def wait(gate: str) -> None:
    while not Path(gate).exists():
        time.sleep(POLL_SECONDS)


@plain("plain-echo")
def echo(data: Any, context: Context) -> Any:
    return data


@plain("plain-wait")
def wait_for_gate(data: Any, context: Context) -> Any:
    """Return when the gate is open."""
    wait(data)
    return context.number


@plain("plain-wait-deaf")
def wait_deaf(data: Any, context: Context) -> Any:
    """Ignore SIGTERM and wait."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wait(data)
    return context.number


@plain("plain-beat")
def beat(data: Any, context: Context) -> Any:
    """Write the time into a file of the attempt's own, again and again, until the gate is open."""
    keep_beating(Path(data), context)
    return context.number


@plain("plain-beat-deaf")
def beat_deaf(data: Any, context: Context) -> Any:
    """Ignore SIGTERM and do the same."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    keep_beating(Path(data), context)
    return context.number
