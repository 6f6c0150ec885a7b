"""Runs tests of this checkout in a process of its own, against other services or with another interpreter."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ledgence_project.embedded.environment import CHECKOUT

TAIL = 12_000
SUITE_SECONDS = 600.0
#: The operations, and a few real workers, which take longer. A consumer is the same on every server and version.
SUITE = (
    "tests/ledger",
    "--deselect=tests/ledger/test_consumption.py",
    "tests/faults/test_kill.py",
    "tests/faults/test_options.py",
    "-m",
    "not slow",
)
#: The statements of admin's pages.
PAGES = ("tests/admin/test_pages.py", "tests/admin/test_overview.py")


def run_suite(
    arguments: Sequence[str], *, database_url: str, settings: str = "tests.faults.settings", python: Path | None = None
) -> str:
    """Run pytest and return what it printed. Raises AssertionError with its end if a test failed or none ran."""
    command = [str(python or sys.executable), "-m", "pytest", "--quiet", "-p", "no:cacheprovider", f"--ds={settings}"]
    environment = os.environ | {"DATABASE_URL": database_url, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'workers'}"}
    # Into a file, so that a run that hangs shows how far it came.
    with tempfile.TemporaryFile() as file:
        try:
            status: object = subprocess.run(
                [*command, *arguments],
                env=environment,
                cwd=CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                timeout=SUITE_SECONDS,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            status = f"none after {SUITE_SECONDS:g} s"
        file.seek(0)
        printed = file.read().decode(errors="replace")
    assert status == 0, f"exit status {status}:\n{printed[-TAIL:]}"
    assert re.search(r"\d+ passed", printed), f"no test ran:\n{printed[-TAIL:]}"
    return printed
