"""The oldest supported Django, in a virtual environment of its own that is kept in .cache."""

import subprocess
import sys
from pathlib import Path

import pytest

from ledgence_project.embedded.environment import CHECKOUT
from tests.compat.suite import PAGES, SUITE, run_suite
from tests.servers import own_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

DJANGO = "django>=5.2,<5.3"
#: What checks the code and does not run it.
NOT_NEEDED = ("django-stubs", "mypy", "ruff", "types-", "import-linter", "build", "playwright", "axe-")


def environment() -> Path:
    """Return the interpreter of a virtual environment with requirements.txt, but for the older Django."""
    folder = CHECKOUT / ".cache" / f"django-5.2-python-{sys.version_info.major}.{sys.version_info.minor}"
    wanted = requirements()
    installed = folder / "installed.txt"
    python = folder / "bin" / "python"
    if not installed.exists() or installed.read_text() != wanted:
        folder.parent.mkdir(exist_ok=True)
        _call(sys.executable, "-m", "venv", "--clear", str(folder))
        listed = folder / "requirements.txt"
        listed.write_text(wanted)
        _call(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(listed))
        # Written last: an installation that was interrupted is begun anew.
        installed.write_text(wanted)
    return python


def requirements() -> str:
    lines = (CHECKOUT / "requirements.txt").read_text().splitlines()
    kept = [line for line in lines if line and not line.startswith(("#", *NOT_NEEDED))]
    return "".join(f"{DJANGO if line.startswith('django>') else line}\n" for line in kept)


def _call(*command: str) -> None:
    done = subprocess.run(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}"


def test_the_suite_passes_on_django_5_2(tmp_path: Path) -> None:
    python = environment()
    version = subprocess.run([python, "-m", "django", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("5.2.")
    with own_server(tmp_path) as server:
        # Admin is what differs most from version to version; who may do what is Ledgence's own.
        admin = [*PAGES, "tests/admin/test_task_page.py", "tests/admin/test_across.py", "tests/admin/test_actions.py"]
        tests = [*admin, "tests/test_checks.py", *SUITE]
        run_suite(tests, database_url=server.url("ledgence"), python=python)
