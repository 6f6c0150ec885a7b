"""Programs that misbehave, each in one way. Each first writes to the effect log that it has started."""

import asyncio
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from django.db import connection, transaction

import ledgence
from ledgence import Context
from ledgence_project.demo.effects import record_start
from tests.faults.zoo import plain as plain

#: Names a file: as long as it does not exist, a process that loads these programs does not get ready.
IMPORT_GATE = "LEDGENCE_CHILD_ZOO_IMPORT_GATE"
GATE_POLL_SECONDS = 0.01


def wait_for_gate(path: str) -> None:
    while not Path(path).exists():
        time.sleep(GATE_POLL_SECONDS)


if IMPORT_GATE in os.environ:
    wait_for_gate(os.environ[IMPORT_GATE])


# Any, here and below: an event has no type for its data, and a program may return whatever it likes.
def zoo(name: str) -> Any:
    """Register a program of the zoo, which records its start before it misbehaves."""

    def register(function: Any) -> Any:
        def run(event: Any, context: Context) -> Any:
            record_start(context.task_id, context.number)
            return function(event.get_data(), context)

        run.__qualname__ = function.__qualname__
        return ledgence.program(name, version="1", queue="zoo")(run)

    return register


@zoo("echo")
def echo(data: Any, context: Context) -> Any:
    return data


@zoo("wait")
def wait(data: Any, context: Context) -> Any:
    """Return when the gate is open."""
    wait_for_gate(data)
    return context.number


@zoo("wait-first")
def wait_first(data: Any, context: Context) -> Any:
    """Wait for the gate in the first attempt only."""
    if context.number == 1:
        wait_for_gate(data)
    return context.number


@zoo("earlier-after-wait")
def earlier_after_wait(data: Any, context: Context) -> Any:
    """Wait for the gate in the first attempt; in a later one tell what is known of those before it."""
    if context.number == 1:
        wait_for_gate(data)
    return [context.cause, [[one.number, one.outcome] for one in context.earlier]]


@zoo("ask-database")
def ask_database(data: Any, context: Context) -> Any:
    """Return the ids of the server's process for this connection, and of this process."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return [cursor.fetchone()[0], os.getpid()]


@zoo("wait-deaf")
def wait_deaf(data: Any, context: Context) -> Any:
    """Ignore SIGTERM and wait."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wait_for_gate(data)
    return context.number


@zoo("wait-async")
async def wait_async(data: Any, context: Context) -> Any:
    """Wait for the gate in a coroutine, and leave a file behind when cancelled."""
    try:
        while not Path(data).exists():
            await asyncio.sleep(GATE_POLL_SECONDS)
    except asyncio.CancelledError:
        Path(f"{data}.cancelled").touch()
        raise
    return context.number


@zoo("hold-gil")
def hold_gil(data: Any, context: Context) -> Any:
    """Compute for ``data`` seconds in C calls that let no other thread of this process run."""
    until = time.monotonic() + data
    while time.monotonic() < until:
        sum(range(5_000_000))
    return context.number


@zoo("process-id")
def process_id(data: Any, context: Context) -> Any:
    return os.getpid()


@zoo("print-much")
def print_much(data: Any, context: Context) -> Any:
    """Print 10 MiB: lines, one endless line, bytes that are no text, and standard error."""
    line = "y" * 1023 + "\n"
    for _ in range(9 * 1024):
        sys.stdout.write(line)
    sys.stdout.write("z" * 512 * 1024)
    sys.stdout.flush()
    os.write(2, b"\xff\x00\xfe" * 1024)
    sys.stderr.write("w" * 512 * 1024)
    return "printed"


@zoo("close-stdout")
def close_stdout(data: Any, context: Context) -> Any:
    sys.stdout.write("the last line\n")
    os.close(1)
    os.close(2)
    return "closed"


@zoo("close-everything")
def close_everything(data: Any, context: Context) -> Any:
    """Close every descriptor, the one to the worker among them."""
    os.closerange(0, 1024)
    return "nobody hears this"


@zoo("forge")
def forge(data: Any, context: Context) -> Any:
    """Write nonsense into the channel to the worker, wherever it is."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b'\x00\x00\x00\x20\x00\x00\x00\x00{"invoke": "forged", "end": "succeeded"}')
        except OSError:
            continue
    return "forged"


@zoo("exit-now")
def exit_now(data: Any, context: Context) -> Any:
    os._exit(7)


@zoo("exit")
def exit_politely(data: Any, context: Context) -> Any:
    sys.exit(3)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@zoo("raise-unprintable")
def raise_unprintable(data: Any, context: Context) -> Any:
    raise Unprintable


class Unpicklable(Exception):
    def __init__(self, lock: Any, reason: str) -> None:
        super().__init__(reason)
        self.lock = lock


@zoo("raise-unpicklable")
def raise_unpicklable(data: Any, context: Context) -> Any:
    raise Unpicklable(threading.Lock(), "cannot be pickled")


@zoo("raise-text")
def raise_text(data: Any, context: Context) -> Any:
    raise ValueError("\ud800 and \x00 and \udfff")


@zoo("return-nan")
def return_nan(data: Any, context: Context) -> Any:
    return {"deep": [math.nan]}


@zoo("return-large")
def return_large(data: Any, context: Context) -> Any:
    return "x" * 20 * 1024 * 1024


@zoo("return-deep")
def return_deep(data: Any, context: Context) -> Any:
    value: Any = None
    for _ in range(5_000):
        value = [value]
    return value


@zoo("return-surrogate")
def return_surrogate(data: Any, context: Context) -> Any:
    return {"\udc00": "\ud83d"}


@zoo("return-nul")
def return_nul(data: Any, context: Context) -> Any:
    return {"a\0b": ["\0"]}


@zoo("return-object")
def return_object(data: Any, context: Context) -> Any:
    return object()


def sleeper(*, daemon: bool) -> int:
    """Start a process that sleeps, ignores SIGTERM and holds this one's output open; as a daemon in its own session."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=daemon).pid


@zoo("leave-child")
def leave_child(data: Any, context: Context) -> Any:
    return sleeper(daemon=False)


@zoo("leave-daemon")
def leave_daemon(data: Any, context: Context) -> Any:
    return sleeper(daemon=True)


@zoo("wait-with-children")
def wait_with_children(data: Any, context: Context) -> Any:
    """Start a child and a daemon, then wait for the gate in the first attempt."""
    if context.number == 1:
        sleeper(daemon=False)
        sleeper(daemon=True)
        Path(f"{data}.ready").touch()
        wait_for_gate(data)
    return context.number


@zoo("leave-transaction")
def leave_transaction(data: Any, context: Context) -> Any:
    """Leave a transaction open that has written, on the connection that the next attempt will use."""
    transaction.set_autocommit(False)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE ledgence_task SET correlation_key = 'never committed' WHERE id = %s", [context.task_id])
    return "left"


@zoo("die")
def die(data: Any, context: Context) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


@zoo("kill-launcher")
def kill_launcher(data: Any, context: Context) -> Any:
    """Kill the process that started this one, once."""
    if context.number == 1:
        os.kill(os.getppid(), signal.SIGKILL)
        wait_for_gate(data)
    return context.number
