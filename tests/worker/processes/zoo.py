"""Programs that behave badly in every way known, for the tests of the process pool. Each takes its orders as data."""
# ruff: noqa: T201 -- these programs print, because programs do.

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cloudevents.core.v1.event import CloudEvent

from ledgence_worker import Context, program
from ledgence_worker.bootstrap import Hooks
from ledgence_worker.frames import encode
from ledgence_worker.launcher import CHANNEL_DESCRIPTOR

_executor = ThreadPoolExecutor(max_workers=1)
_kept: list[object] = []


def note(event: CloudEvent, text: str = "") -> None:
    """Tell the test, by the file that it named, that the program has come so far."""
    _write_whole(Path(_data(event)["path"]), text or str(os.getpid()))


def _write_whole(path: Path, text: str) -> None:
    """Write a file that is never seen empty."""
    part = path.with_suffix(".part")
    part.write_text(text)
    part.rename(path)


def _data(event: CloudEvent) -> Any:
    return event.get_data()


@program("echo", version="1")
def echo(event: CloudEvent) -> Any:
    return event.get_data()


@program("pid", version="1")
def pid(event: CloudEvent) -> int:
    return os.getpid()


@program("facts", version="1")
def facts(event: CloudEvent, context: Context) -> Any:
    return {
        "attributes": {name: str(value) for name, value in event.get_attributes().items()},
        "data": event.get_data(),
        "task": str(context.task_id),
        "number": context.number,
        "cause": context.cause,
        "earlier": [[e.number, e.cause, e.outcome, e.finished_at] for e in context.earlier],
        "traceparent": context.traceparent,
        "remaining": context.remaining(),
        "cancelled": context.is_cancelled(),
        "fencing": [str(part) for part in context.fencing_token],
    }


@program("inherited", version="1")
def inherited(event: CloudEvent) -> Any:
    descriptors = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            descriptors[name] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            # The descriptor by which the folder was listed.
            continue
    child = subprocess.run(["ls", "/proc/self/fd"], capture_output=True, text=True, check=True, close_fds=False)
    return {"own": descriptors, "grandchild": child.stdout.split(), "environment": dict(os.environ), "path": sys.path}


@program("prints", version="1")
def prints(event: CloudEvent) -> Any:
    order = _data(event)
    unit = order.get("text", "x")
    for _ in range(order["times"]):
        os.write(order.get("descriptor", 1), unit.encode())
    return "printed"


@program("prints-politely", version="1")
def prints_politely(event: CloudEvent) -> None:
    print("from print")
    print("from stderr", file=sys.stderr)
    print("half \ud800 pair, no end", end="")
    ctypes.CDLL(None).printf(b" and from printf\n")


@program("closes-output", version="1")
def closes_output(event: CloudEvent) -> str:
    os.close(1)
    os.close(2)
    return "closed"


@program("replaces-stdout", version="1")
def replaces_stdout(event: CloudEvent) -> str:
    sys.stdout = None
    return "replaced"


@program("exits", version="1")
def exits(event: CloudEvent) -> None:
    os._exit(_data(event))


@program("kills-itself", version="1")
def kills_itself(event: CloudEvent) -> None:
    os.kill(os.getpid(), _data(event))
    time.sleep(60)


@program("sys-exits", version="1")
def sys_exits(event: CloudEvent) -> None:
    sys.exit(4)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Hanging(Exception):
    def __str__(self) -> str:
        while True:
            time.sleep(0.01)


class TwoArguments(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__()
        self.lock = threading.Lock()


def _recurse() -> None:
    _recurse()


def _raise_cycle() -> None:
    first, second = ValueError("one"), ValueError("two")
    first.__cause__, second.__cause__ = second, first
    raise first


def _raise_local() -> None:
    class Local(Exception):
        pass

    raise Local("local")


def _raise(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


_FAILURES: dict[str, Callable[[], None]] = {
    "value": _raise(ValueError("plain")),
    "mute": _raise(Mute()),
    "hanging": _raise(Hanging()),
    "two-arguments": _raise(TwoArguments(1, 2)),
    "group": _raise(ExceptionGroup("many", [ValueError("a"), KeyError("b")])),
    "recursion": _recurse,
    "cycle": _raise_cycle,
    "local": _raise_local,
    "huge": lambda: _raise(ValueError("m" * 50_000_000))(),
    "surrogate": _raise(ValueError("half \udc80 and nul \0")),
    "keyboard": _raise(KeyboardInterrupt()),
    "base": _raise(BaseException("base")),
}


@program("raises", version="1")
def raises(event: CloudEvent) -> None:
    _FAILURES[_data(event)]()


def _deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def _endless() -> Any:
    value: Any = [1]
    for _ in range(63):
        value = [value, value]
    return value


_RESULTS: dict[str, Callable[[], Any]] = {
    "nan": lambda: {"x": float("nan")},
    "large": lambda: "x" * 20 * 1024 * 1024,
    "deep": lambda: _deep(5000),
    "surrogate": lambda: ["\ud800"],
    "number-key": lambda: {1: 2},
    "object": lambda: object(),
    "repeating": _endless,
    "nul": lambda: "a\0b",
    "none": lambda: None,
    "eight-mebibytes": lambda: "x" * (8 * 1024 * 1024 - 2),
}


@program("returns", version="1")
def returns(event: CloudEvent) -> Any:
    return _RESULTS[_data(event)]()


@program("sleeps", version="1")
def sleeps(event: CloudEvent) -> None:
    note(event)
    time.sleep(60)


@program("cleans-up", version="1")
def cleans_up(event: CloudEvent) -> None:
    note(event)
    try:
        time.sleep(60)
    finally:
        Path(_data(event)["cleaned"]).touch()


@program("ignores-stop", version="1")
def ignores_stop(event: CloudEvent) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(event)
    time.sleep(60)


@program("finishes-after-stop", version="1")
def finishes_after_stop(event: CloudEvent) -> str:
    note(event)
    try:
        time.sleep(60)
    except BaseException:
        return "finished"
    return "never stopped"


@program("raises-after-stop", version="1")
def raises_after_stop(event: CloudEvent) -> None:
    note(event)
    try:
        time.sleep(60)
    finally:
        raise ValueError("while cleaning up")


@program("watches-flag", version="1")
def watches_flag(event: CloudEvent, context: Context) -> str:
    stopped: list[bool] = []

    def work() -> None:
        while not context.is_cancelled():
            time.sleep(0.005)
        stopped.append(True)

    worker = threading.Thread(target=work)
    worker.start()
    note(event)
    try:
        worker.join()
    finally:
        worker.join()
    return f"flag seen {stopped}"


def _sleeping(*, own_session: bool) -> int:
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(300)",
        ],
        stdout=subprocess.PIPE,
        start_new_session=own_session,
    )
    _kept.append(child)
    assert child.stdout is not None
    child.stdout.readline()
    return child.pid


@program("leaves-child", version="1")
def leaves_child(event: CloudEvent) -> int:
    return _sleeping(own_session=_data(event)["own_session"])


@program("leaves-daemon", version="1")
def leaves_daemon(event: CloudEvent) -> str:
    subprocess.run(["sh", "-c", "setsid sleep 300 & echo $! >&2"], check=True)
    return "left"


@program("sleeps-with-child", version="1")
def sleeps_with_child(event: CloudEvent) -> None:
    pids = [_sleeping(own_session=False), _sleeping(own_session=True), os.getpid()]
    note(event, " ".join(map(str, pids)))
    time.sleep(60)


@program("forks-and-returns", version="1")
def forks_and_returns(event: CloudEvent) -> str:
    if os.fork() == 0:
        return "from the copy"
    os.wait()
    return "from the original"


@program("leaves-directory", version="1")
def leaves_directory(event: CloudEvent) -> int:
    os.chdir("/")
    return os.getpid()


@program("leaves-timer", version="1")
def leaves_timer(event: CloudEvent) -> int:
    # Any: the stubs know no numbers.
    which: Any = event.get_data()
    signal.setitimer(which, 0.5)
    return os.getpid()


@program("leaves-thread", version="1")
def leaves_thread(event: CloudEvent) -> int:
    threading.Thread(target=time.sleep, args=(300,)).start()
    return os.getpid()


@program("uses-executor", version="1")
def uses_executor(event: CloudEvent) -> int:
    return _executor.submit(os.getpid).result()


@program("writes-on-channel", version="1")
def writes_on_channel(event: CloudEvent) -> str:
    os.write(CHANNEL_DESCRIPTOR, bytes.fromhex(_data(event)))
    time.sleep(60)
    return "never seen"


@program("forges-end", version="1")
def forges_end(event: CloudEvent) -> str:
    header = {"end": "0011223344556677", "kind": "succeeded", "clean": True, "error": None}
    os.write(CHANNEL_DESCRIPTOR, encode(header, b'"forged"'))
    time.sleep(60)
    return "never seen"


@program("writes-half-a-frame", version="1")
def writes_half_a_frame(event: CloudEvent) -> None:
    os.write(CHANNEL_DESCRIPTOR, bytes.fromhex("0000001000000010") + b'{"end":')
    os._exit(1)


@program("closes-channel", version="1")
def closes_channel(event: CloudEvent) -> None:
    os.close(CHANNEL_DESCRIPTOR)
    time.sleep(60)


@program("speaks-out-of-turn", version="1")
def speaks_out_of_turn(event: CloudEvent) -> int:
    def speak() -> None:
        time.sleep(0.1)
        socket.socket(fileno=os.dup(CHANNEL_DESCRIPTOR)).sendall(encode({"end": "", "kind": "succeeded"}))

    threading.Thread(target=speak, daemon=True).start()
    return os.getpid()


@program("async-echo", version="1")
async def async_echo(event: CloudEvent, context: Context) -> Any:
    await asyncio.sleep(0)
    return [event.get_data(), context.number]


@program("async-sleeps", version="1")
async def async_sleeps(event: CloudEvent) -> None:
    note(event)
    try:
        await asyncio.sleep(60)
    finally:
        Path(_data(event)["cleaned"]).touch()


@program("async-leaves-task", version="1")
async def async_leaves_task(event: CloudEvent) -> int:
    _kept.append(asyncio.create_task(asyncio.sleep(300)))
    return await asyncio.to_thread(os.getpid)


@program("allocates", version="1")
def allocates(event: CloudEvent) -> int:
    _kept.append(b"x" * 64 * 1024 * 1024)
    return os.getpid()


def loads() -> Hooks:
    """Bootstrap with hooks that print."""
    print("loading")
    return Hooks(before=(lambda: print("before"),), after=(lambda: print("after"),))


def loads_with_failing_hook() -> Hooks:
    """Bootstrap with a hook that fails after each attempt."""
    return Hooks(after=(lambda: sys.exit("tired"),))


def fails() -> None:
    """Bootstrap that raises."""
    print("about to fail")
    raise RuntimeError("no programs today")


def leaves() -> None:
    """Bootstrap that ends the process."""
    print("about to leave")
    sys.exit(7)


def hangs() -> None:
    """Bootstrap that never returns."""
    time.sleep(300)


def fails_after_first() -> None:
    """Bootstrap that works once: the file that it finds makes every later process fail."""
    path = Path(os.environ["LEDGENCE_CHILD_MARK"])
    if path.exists():
        raise RuntimeError("no further process today")
    path.touch()


def slow_after_first() -> None:
    """Bootstrap that is quick once; every later process waits until the test removes the mark."""
    path = Path(os.environ["LEDGENCE_CHILD_MARK"])
    if not path.exists():
        path.touch()
        return
    _write_whole(Path(f"{path}.starting"), str(os.getpid()))
    while path.exists():
        time.sleep(0.01)


def changes() -> None:
    """Bootstrap after which each process but the first knows one program more."""
    path = Path(os.environ["LEDGENCE_CHILD_MARK"])
    if path.exists():
        program("newcomer", version="1")(lambda event: None)
    path.touch()
