"""A real server of the task service for tests: gunicorn's ASGI worker over the test database, on a free port."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

CHECKOUT = Path(__file__).resolve().parents[2]
START_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server. ``url`` is what stands before /ledgence/v1/."""

    url: str
    port: int
    process: subprocess.Popen[bytes]

    def end(self) -> None:
        """End it as an operator does, and wait for it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)


@contextmanager
def serving(
    database_url: str,
    *options: str,
    environment: Mapping[str, str] | None = None,
    port: int = 0,
    application: str = "ledgence_project.asgi:application",
    output: IO[bytes] | None = None,
) -> Iterator[Server]:
    """Run a server until the block ends; ``options`` are gunicorn's. What it prints goes to ``output``, if given."""
    with socket.create_server(("127.0.0.1", port), backlog=1024, reuse_port=False) as listening:
        number, port = listening.fileno(), listening.getsockname()[1]
        command = [sys.executable, "-m", "gunicorn", "--worker-class", "asgi", "--bind", f"fd://{number}"]
        command += [
            "--keep-alive",
            "5",
            "--graceful-timeout",
            "2",
            "--log-level",
            "warning",
            "--no-control-socket",
            *options,
        ]
        own = {"DATABASE_URL": database_url, "DEBUG": "true", "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'workers'}"}
        own["LEDGENCE_HOUSEKEEPING"] = "off"
        process = subprocess.Popen(
            [*command, application],
            stdout=output,
            stderr=output,
            pass_fds=[number],
            cwd=CHECKOUT,
            env=os.environ | own | dict(environment or {}),
            start_new_session=True,
        )
    server = Server(url=f"http://127.0.0.1:{port}", port=port, process=process)
    try:
        await_health(server)
        yield server
    finally:
        try:
            server.end()
        finally:
            # Its own processes are in its group; a dead leader keeps none of them.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def await_health(server: Server) -> None:
    """Wait until the server answers."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{server.url}/ledgence/v1/health/live", timeout=5) as reply:  # noqa: S310
                assert reply.status == 200
                return
        except (urllib.error.URLError, OSError) as error:
            if server.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the server did not come up: {error}") from error
            time.sleep(0.05)
