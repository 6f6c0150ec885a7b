"""A worker as a real process: its signals, its log, and every process that comes from it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from ledgence_project.embedded.environment import CHECKOUT
from tests.faults.waiting import DEADLINE_SECONDS, wait_until

#: Every process that a worker starts, and what those start, inherits this variable: so none can hide.
MARK_VARIABLE = "LEDGENCE_CHILD_TEST_MARK"
LOG_TAIL = 4000


#: The commands that are workers.
MANAGE = (str(CHECKOUT / "manage.py"), "ledgence_worker")
CONNECT = ("-m", "ledgence_worker.connect", "connect")


class WorkerProcess:
    """A worker's command with its output in a file. A test kills only what it finds through this."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: Path, command: Sequence[str] = MANAGE
    ) -> None:
        self.mark = environment[MARK_VARIABLE]
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, *command, *arguments],
                env=environment,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd=CHECKOUT,
            )
        self.pid = self._process.pid

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def send(self, signum: signal.Signals) -> None:
        self._process.send_signal(signum)

    def kill(self) -> None:
        """Kill the worker's own process, as the kernel's out-of-memory killer would."""
        self._process.kill()
        self._process.wait()

    def wait(self, seconds: float = DEADLINE_SECONDS) -> int:
        """Wait for the end and return the exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"worker {self.pid} still runs after {seconds:g} s; {self.tail()}") from None

    def stop_soon(self) -> None:
        """Begin to drain the worker."""
        self.send(signal.SIGTERM)

    def stop(self) -> int:
        """Drain the worker and return the exit code."""
        self.stop_soon()
        return self.wait()

    def wait_for_log(self, pattern: str, seconds: float = DEADLINE_SECONDS) -> re.Match[str]:
        """Wait for a line that matches, and return the match."""

        def look() -> re.Match[str] | None:
            found = re.search(pattern, self.output)
            assert found or self.is_running, f"the worker ended before it logged {pattern!r}; {self.tail()}"
            return found

        try:
            found = wait_until(look, f"{pattern!r} in the log", seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.tail()}") from None
        assert found is not None
        return found

    def wait_until_started(self) -> None:
        self.wait_for_log(r"worker started session=")

    def family(self) -> list[psutil.Process]:
        """Every living process that this worker started, directly or not, wherever it has gone since; not itself."""
        return [process for process in living(self.mark) if process.pid != self.pid]

    def children(self) -> list[psutil.Process]:
        """The managed processes, ready or not."""
        return [process for process in self.family() if "ledgence_worker.child" in _command(process)]

    def tail(self) -> str:
        return f"its log ends:\n{self.output[-LOG_TAIL:]}"


def living(mark: str) -> list[psutil.Process]:
    """Every living process with the mark in its environment. A dead one that was not reaped yet counts as dead."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK_VARIABLE) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def end_all(mark: str) -> list[str]:
    """Kill every process with the mark and return their command lines."""
    left = living(mark)
    commands = [f"{process.pid} {_command(process)}" for process in left]
    for process in left:
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    psutil.wait_procs(left, timeout=DEADLINE_SECONDS)
    return commands


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return "ended"
