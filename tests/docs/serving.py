"""A project served by gunicorn, as docs/deploy.md tells to start it."""

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.docs.reading import DOCS, table
from tests.faults.waiting import wait_until

STOP_SECONDS = 40.0
LOG_TAIL = 4000


def options() -> list[str]:
    """Return the page's options of gunicorn."""
    return [f"{row['Option of gunicorn']}={row['Value']}" for row in table(DOCS / "deploy.md", "Option of gunicorn")]


@contextmanager
def serve(
    folder: Path, variables: Mapping[str, str], bind: str, application: str, *, ready: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Run gunicorn in a folder until the block ends; begins when the service answers."""
    command = [sys.executable, "-m", "gunicorn", *options(), "--no-control-socket", f"--bind={bind}", application]
    with (folder / "gunicorn.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=dict(variables), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )

    def look() -> bool:
        assert process.poll() is None, (folder / "gunicorn.log").read_text(errors="replace")[-LOG_TAIL:]
        return answers(f"http://{bind}/ledgence/v1/health/live")

    try:
        if not bind.startswith("unix:"):
            wait_until(look, "the task service to answer")
        yield process
    finally:
        stop(process)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:  # noqa: S310 - http, on the loopback interface
            return bool(reply.status == 200)
    except OSError:
        return False


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process as a service manager does."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
