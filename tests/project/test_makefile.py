"""The Makefile's search for an interpreter, and the groups of tests that it runs."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ledgence_project.embedded.environment import CHECKOUT

SHIM = "#!/bin/sh\necho 'pyenv: python: command not found' >&2\nexit 127\n"
OLD = "#!/bin/sh\necho is Python 3.11\n"
WITHOUT_VENV = "#!/bin/sh\necho 'lacks the venv module'\n"
FIT = "#!/bin/sh\necho fit\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def place(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


def interpreter(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Ask the Makefile for an interpreter on a machine that has only what the test placed there."""
    make = shutil.which("make")
    assert make is not None
    environment = {"HOME": str(home), "PATH": str(home / "bin")}
    command = [make, "--silent", "--directory", str(CHECKOUT), "interpreter", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_names_that_do_not_run_or_are_too_old_are_passed_over(home: Path) -> None:
    for name in ("python3.13", "python3.12", "python"):
        place(home / "bin" / name, SHIM)
    place(home / "bin" / "python3", OLD)
    place(home / ".pyenv" / "versions" / "3.11.7" / "bin" / "python", OLD)
    good = place(home / ".pyenv" / "versions" / "3.12.1" / "bin" / "python", FIT)
    found = interpreter(home)
    assert (found.stdout, found.stderr) == (f"{good}\n", "")


def test_the_path_comes_before_the_version_managers_folders(home: Path) -> None:
    good = place(home / "bin" / "python3.12", FIT)
    place(home / ".pyenv" / "versions" / "3.13.0" / "bin" / "python", FIT)
    assert interpreter(home).stdout == f"{good}\n"


def test_what_is_missing_is_said(home: Path) -> None:
    shim = place(home / "bin" / "python3.13", SHIM)
    old = place(home / "bin" / "python3", OLD)
    bare = place(home / "bin" / "python3.12", WITHOUT_VENV)
    found = interpreter(home)
    assert found.returncode != 0
    assert found.stdout == ""
    assert "Ledgence needs Python 3.12 or newer" in found.stderr
    assert f"{shim} does not run" in found.stderr
    assert f"{old} is Python 3.11" in found.stderr
    assert f"{bare} lacks the venv module" in found.stderr
    assert "make PYTHON=" in found.stderr


def test_no_python_at_all_is_said(home: Path) -> None:
    found = interpreter(home)
    assert found.returncode != 0
    assert "there is no Python on the PATH" in found.stderr


def test_a_named_interpreter_is_the_only_candidate(home: Path) -> None:
    place(home / "bin" / "python3.13", FIT)
    named = place(home / "elsewhere" / "python", OLD)
    found = interpreter(home, f"PYTHON={named}")
    assert found.returncode != 0
    assert f"{named} is Python 3.11" in found.stderr


def test_this_interpreter_is_fit(home: Path) -> None:
    real = Path(sys.executable).resolve()
    assert interpreter(home, f"PYTHON={real}").stdout == f"{real}\n"


def test_every_marker_belongs_to_a_group_that_is_run() -> None:
    makefile = (CHECKOUT / "Makefile").read_text()
    slow = re.search(r"^SLOW := (.*)$", makefile, re.MULTILINE)
    assert slow is not None
    options = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    declared = {marker.split(":")[0] for marker in options["markers"]}
    assert set(slow[1].split(" or ")) == declared - {"process"}


@pytest.mark.process
@pytest.mark.parametrize(("wanted", "status"), [(1, 0), (2, 1)])
def test_a_run_in_which_too_few_tests_pass_fails(tmp_path: Path, wanted: int, status: int) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(): pass\n")
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "-p", "tests.conftest", "--rootdir", str(tmp_path)]
    command += [str(tmp_path), f"--passed-at-least={wanted}"]
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    assert ("1 tests passed, and 2 were to." in done.stdout) == bool(status)


def test_every_test_over_a_broker_is_counted() -> None:
    marked = {path for path in (CHECKOUT / "tests").rglob("*.py") if "mark.broker" in path.read_text()}
    assert marked - {Path(__file__)}
    assert all(path.is_relative_to(CHECKOUT / "tests" / "brokers") for path in marked - {Path(__file__)})
