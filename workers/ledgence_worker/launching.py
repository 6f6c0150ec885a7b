"""The worker's side of the launcher: starts it, asks it for processes and signals, and hears what became of them."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from ledgence_worker.environment import with_package_path
from ledgence_worker.errors import LauncherLost, ProtocolError
from ledgence_worker.frames import Decoder, Header, encode

_RECEIVE_BYTES: Final = 64 * 1024
#: How long the launcher may take to read a request: it never waits for anything itself.
_SEND_SECONDS: Final = 10.0


class LauncherProcess:
    """The one launcher of a worker. Methods raise LauncherLost when it is gone. See launcher.py."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.socket, self._theirs = socket.socketpair()
        self.socket.settimeout(_SEND_SECONDS)
        self._decoder = Decoder()
        self._environment = with_package_path(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it: in its own session, so that no terminal's signal reaches it."""
        with self._theirs:
            descriptor = self._theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ledgence_worker.launcher", str(descriptor)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[descriptor],
                start_new_session=True,
                env=self._environment,
            )

    def spawn(self, slot: int) -> tuple[socket.socket, int]:
        """Ask for a managed process; return our ends of its channel and of its output pipe."""
        arguments = [sys.executable, "-P", "-m", "ledgence_worker.child"]
        request = {"do": "spawn", "slot": slot, "arguments": arguments, "environment": self._environment}
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            channel, their_channel = socket.socketpair()
            ours.callback(channel.close)
            theirs.callback(their_channel.close)
            reading, writing = os.pipe()
            ours.callback(os.close, reading)
            theirs.callback(os.close, writing)
            self._send(request, [their_channel.fileno(), writing])
            ours.pop_all()
        return channel, reading

    def signal(self, slot: int, signum: signal.Signals) -> None:
        """Signal a process's group, unless it is gone. SIGKILL ends in a ``gone`` event, as every end does."""
        self._send({"do": "signal", "slot": slot, "signal": int(signum)})

    def receive(self) -> list[Header]:
        """Return what it reported. Call it when the socket is readable."""
        try:
            data = self.socket.recv(_RECEIVE_BYTES)
        except OSError:
            data = b""
        if not data:
            raise LauncherLost(_LOST)
        try:
            return [header for header, _ in self._decoder.feed(data)]
        except ProtocolError as error:
            raise LauncherLost(f"The launcher of the managed processes sends nonsense: {error} {_ADVICE}") from None

    def close(self, *, patience_seconds: float) -> None:
        """Close the lifeline, upon which it kills and reaps everything, and wait for its end."""
        self.socket.close()
        self._theirs.close()
        if self._process is None:
            return
        try:
            self._process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, request: Header, descriptors: Sequence[int] = ()) -> None:
        frame = encode(request)
        try:
            sent = socket.send_fds(self.socket, [frame], descriptors) if descriptors else 0
            self.socket.sendall(frame[sent:])
        except OSError as error:
            raise LauncherLost(f"{_LOST} ({error})") from error


_ADVICE: Final = "Nothing can be started or confirmed any more: end the worker."
_LOST: Final = f"The launcher of the managed processes is gone. {_ADVICE}"
