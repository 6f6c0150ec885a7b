"""The programs of the demonstration and the benchmark."""

import time
from typing import Any

import ledgence
from ledgence import Context
from ledgence_project.demo.effects import record_start
from ledgence_project.demo.inspection import inspect_file


@ledgence.program("inspect-file", version="1", queue="demo")
def inspect(event: Any, context: Context) -> dict[str, object]:
    """Parse and hash one file. ``data`` is {"path": str}. Any: the event's type has no stubs for its data."""
    record_start(context.task_id, context.number)
    return inspect_file(event.get_data()["path"])


@ledgence.program("noop", version="1", queue="bench")
def noop(event: Any) -> None:
    """Do nothing: what is left is the cost of Ledgence."""


@ledgence.program("clock", version="1", queue="bench")
def clock(event: Any) -> float:
    """Return when user code began, as seconds since the epoch."""
    return time.time()


@ledgence.program("hold", version="1", queue="bench")
def hold(event: Any) -> None:
    """Keep a process busy for data["seconds"]."""
    time.sleep(event.get_data()["seconds"])
