"""A managed process: loads the programs, then runs one attempt at a time. Started by the launcher, never by hand."""

import asyncio
import contextlib
import inspect
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from types import FrameType
from typing import Any, Final
from uuid import UUID

from ledgence_worker import linux, messages
from ledgence_worker.bootstrap import Hooks, run_bootstrap
from ledgence_worker.context import Context, Stopped
from ledgence_worker.errors import InvalidInput, InvalidResult
from ledgence_worker.event import parse_event
from ledgence_worker.failures import describe
from ledgence_worker.frames import Decoder, Header, encode
from ledgence_worker.leftovers import Leftovers
from ledgence_worker.limits import RESULT_BYTES
from ledgence_worker.messages import EndKind
from ledgence_worker.programs import Program, catalogue, find
from ledgence_worker.strict_json import dumps

_RECEIVE_BYTES: Final = 32 * 1024
_DESCRIPTORS_MAX: Final = 1 << 20


class _Phase(Enum):
    # SIGTERM ends the process.
    IDLE = auto()
    # SIGTERM stops the program.
    RUNNING = auto()
    # SIGTERM waits: the program is over, its end is being told.
    REPORTING = auto()


class _Unfinished(Enum):
    UNFINISHED = auto()


class Child:
    """Serves the channel until it is closed or a stop was asked for."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._decoder = Decoder()
        self._pid = os.getpid()
        self._phase = _Phase.IDLE
        self._is_stopping = False
        self._cancel_task: Callable[[], object] | None = None
        self._hooks = Hooks()
        self._stdout, self._stderr = sys.stdout, sys.stderr

    def serve(self) -> int:
        """Shake hands, then run invocations. Returns the exit status."""
        signal.signal(signal.SIGTERM, self._on_terminate)
        first = self._receive()
        if first is None:
            return 0
        if not self._load(first[0]):
            return 1
        self._leftovers = Leftovers()
        while not self._is_stopping and (frame := self._receive()) is not None:
            self._invoke(*frame)
        return 0

    def _load(self, header: Header) -> bool:
        sys.path[:] = header["path"]
        if header["python_path"] is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = header["python_path"]
        try:
            self._hooks = run_bootstrap(header["bootstrap"])
        except Exception as error:
            self._send(messages.not_ready(describe(error)))
            return False
        self._send(messages.ready(catalogue()))
        return True

    def _invoke(self, header: Header, body: bytes) -> None:
        for hook in self._hooks.before:
            hook()
        result, failure = "", None
        kind = EndKind.SUCCEEDED
        try:
            result = self._run(header, body)
        except BaseException as error:
            self._phase = _Phase.REPORTING
            # After a stop only a success counts as the program's own end.
            kind = EndKind.STOPPED if self._is_stopping else EndKind.FAILED
            failure = describe(error)
            is_clean = isinstance(error, Exception)
        else:
            is_clean = True
        if os.getpid() != self._pid:
            # The program forked and let the copy return: the original alone tidies up and tells the end.
            os._exit(1)
        is_clean = self._tidy_up() and is_clean
        self._send(messages.end(header["invoke"], kind, is_clean=is_clean, error=failure), result.encode())
        self._phase = _Phase.IDLE

    def _run(self, header: Header, body: bytes) -> str:
        program, event, context = self._prepare(header, body)
        value: Any = _Unfinished.UNFINISHED
        try:
            try:
                self._phase = _Phase.RUNNING
                value = program.function(event, context) if program.takes_context else program.function(event)
                if inspect.isawaitable(value):
                    awaitable, value = value, _Unfinished.UNFINISHED
                    value = self._run_awaitable(awaitable)
            finally:
                self._phase = _Phase.REPORTING
        except Stopped:
            # The signal may come when the program has just returned: then it has its result.
            self._phase = _Phase.REPORTING
            if value is _Unfinished.UNFINISHED:
                raise
        try:
            return dumps(value, what="The result", limit=RESULT_BYTES)
        except InvalidInput as error:
            raise InvalidResult(str(error)) from None

    def _prepare(self, header: Header, body: bytes) -> tuple[Program[Any], Any, Context]:
        program = find(header["program"], header["version"])
        event = parse_event(body)
        remaining = header["remaining"]
        attributes = event.get_attributes()
        context = Context(
            task_id=UUID(attributes["ldgtaskid"]),
            number=attributes["ldgattemptno"],
            cause=header["cause"],
            earlier=messages.earlier_attempts(header),
            traceparent=attributes.get("traceparent"),
            deadline=None if remaining is None else time.monotonic() + remaining,
            stop_requested=lambda: self._is_stopping,
        )
        return program, event, context

    # Any: whatever the program returns.
    def _run_awaitable(self, awaitable: Awaitable[Any]) -> Any:
        async def cancellable() -> Any:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            self._cancel_task = lambda: task is not None and loop.call_soon_threadsafe(task.cancel)
            try:
                return await awaitable
            finally:
                self._cancel_task = None

        # A loop of its own for each attempt: no task of it survives into the next one.
        with asyncio.Runner() as runner:
            return runner.run(cancellable())

    def _tidy_up(self) -> bool:
        """Make the process ready for the next attempt and return whether that is possible."""
        is_clean = True
        try:
            for hook in self._hooks.after:
                hook()
        except BaseException as error:
            # The program's end stands, whatever the hook raises. Its stderr may be anything by now.
            with contextlib.suppress(OSError):
                os.write(2, f"A hook after the attempt failed: {describe(error).traceback}\n".encode())
            is_clean = False
        if signal.getsignal(signal.SIGTERM) != self._on_terminate:
            signal.signal(signal.SIGTERM, self._on_terminate)
        self._flush()
        return is_clean and not self._is_stopping and self._leftovers.are_none()

    def _flush(self) -> None:
        """Push everything printed into the pipe, so that it is there before the end is told."""
        for stream in (sys.stdout, sys.stderr, self._stdout, self._stderr):
            # The program may have closed it, or put anything in its place.
            with contextlib.suppress(Exception):
                stream.flush()
        sys.stdout, sys.stderr = self._stdout, self._stderr
        linux.flush_c_streams()

    def _receive(self) -> tuple[Header, bytes] | None:
        while data := self._channel.recv(_RECEIVE_BYTES):
            # The supervisor sends the next frame only after our answer, so there is never more than one.
            for frame in self._decoder.feed(data):
                return frame
        return None

    def _send(self, header: Header, body: bytes = b"") -> None:
        self._channel.sendall(encode(header, body))

    def _on_terminate(self, signum: int, frame: FrameType | None) -> None:
        was_stopping, self._is_stopping = self._is_stopping, True
        if self._phase is _Phase.IDLE:
            raise SystemExit(0)
        if self._phase is _Phase.RUNNING and not was_stopping:
            if self._cancel_task is None:
                raise Stopped("The attempt was asked to stop.")
            self._cancel_task()


def main() -> int:
    """Set the process up: bound to its launcher, holding only its output and its channel."""
    descriptor, launcher = int(sys.argv[1]), int(sys.argv[2])
    linux.die_with_parent(launcher)
    linux.become_subreaper()
    os.closerange(descriptor + 1, _DESCRIPTORS_MAX)
    os.set_inheritable(descriptor, False)
    channel = socket.socket(fileno=descriptor)
    os.register_at_fork(after_in_child=channel.close)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    return Child(channel).serve()


if __name__ == "__main__":
    sys.exit(main())
