"""The command line of the embedded database: environment, exit status, signals."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest

from ledgence_project.embedded.__main__ import main, supervise
from ledgence_project.embedded.environment import CHECKOUT, DEVELOPMENT_KEY

pytestmark = pytest.mark.process

MODULE = [sys.executable, "-m", "ledgence_project.embedded"]
SUPERVISE = """
import os, sys
from ledgence_project.embedded.__main__ import supervise
sys.exit(supervise(sys.argv[1:], dict(os.environ)))
"""
#: Tells its start, counts the signals that it gets, and ends when its standard input does.
COUNT = """
import signal, sys
seen = []
def count(number, frame):
    seen.append(number)
    print("got", signal.Signals(number).name, flush=True)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, count)
print("ready", flush=True)
sys.stdin.readline()
print("count", len(seen), flush=True)
sys.exit(3)
"""


def embedded(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "SECRET_KEY")} | variables
    command = [*MODULE, *arguments]
    return subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)


def test_a_command_gets_a_database_and_its_status_is_returned() -> None:
    code = "import os, psycopg; psycopg.connect(os.environ['DATABASE_URL']); print(os.environ['SECRET_KEY']); exit(7)"
    ran = embedded("run", "--", sys.executable, "-c", code)
    assert (ran.returncode, ran.stderr) == (7, "")
    assert ran.stdout.strip()


def test_an_existing_database_url_is_kept_and_no_server_started() -> None:
    code = "import os; print(os.environ['DATABASE_URL'])"
    ran = embedded("run", "--", sys.executable, "-c", code, DATABASE_URL="postgresql://elsewhere/x")
    assert ran.stdout == "postgresql://elsewhere/x\n"


def test_without_its_packages_it_tells_how_to_install_them() -> None:
    # As after the installation of the two packages alone.
    code = "import runpy, sys; sys.modules['psutil'] = None; runpy._run_module_as_main('ledgence_project.embedded')"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 1
    assert "needs the package psutil: run 'make install' in the checkout" in ran.stderr.splitlines()[-1]


@pytest.mark.parametrize(("variables", "key"), [({}, DEVELOPMENT_KEY), ({"SECRET_KEY": "own"}, "own")])
def test_beside_an_existing_database_a_key_is_set_where_none_is(variables: dict[str, str], key: str) -> None:
    code = "import os; print(os.environ['SECRET_KEY'])"
    ran = embedded("run", "--", sys.executable, "-c", code, DATABASE_URL="postgresql://elsewhere/x", **variables)
    assert ran.stdout == f"{key}\n", ran.stderr


def test_pytest_beside_an_existing_database_needs_no_key() -> None:
    variables = {k: v for k, v in os.environ.items() if k not in ("SECRET_KEY", "DEBUG")}
    variables |= {"DATABASE_URL": "postgresql://elsewhere/x", "PYTEST_ADDOPTS": "-p no:cacheprovider"}
    command = [sys.executable, "-m", "pytest", "--quiet", "tests/worker/test_frames.py"]
    ran = subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("command", "status"),
    [(["true"], 0), (["sh", "-c", "exit 41"], 41), (["sh", "-c", "kill -9 $$"], 128 + 9), (["./no such command"], 127)],
)
def test_the_status_is_a_shells(command: Sequence[str], status: int) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        assert supervise(command, dict(os.environ)) == status
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_command_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", "--"])
    assert caught.value.code == 2
    assert "a command is needed" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_passed_on(number: signal.Signals) -> None:
    command = [sys.executable, "-c", SUPERVISE, sys.executable, "-c", COUNT]
    pipe = subprocess.PIPE
    # A session of its own: no terminal is near, as under a process manager.
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=CHECKOUT, start_new_session=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        owner.send_signal(number)
        assert owner.stdout.readline() == f"got {number.name}\n"
        rest, _ = owner.communicate("\n")
    assert (rest, owner.returncode) == ("count 1\n", 3)


def test_ctrl_c_reaches_the_command_once() -> None:
    # The terminal sends it to the whole foreground group. Passed on as well, it would force a draining worker.
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(CHECKOUT)
        os.execv(sys.executable, [sys.executable, "-c", SUPERVISE, sys.executable, "-c", COUNT])
    with os.fdopen(terminal, "r+b", buffering=0) as screen:
        output = b""
        for key, answer in ((b"", b"ready"), (b"\x03", b"got SIGINT"), (b"\n", b"count")):
            screen.write(key)
            while answer not in output or not output.endswith(b"\n"):
                output += screen.read(1024)
        _, status = os.waitpid(pid, 0)
    assert b"count 1\r\n" in output, output
    assert os.waitstatus_to_exitcode(status) == 3


def test_a_terminated_owner_stops_the_server(tmp_path: Path, checkout: Path) -> None:
    address = tmp_path / "address"
    code = f"""
import os, pathlib, signal
pathlib.Path({str(address)!r}).write_text(os.environ["DATABASE_URL"])
print("ready", flush=True)
signal.pause()
"""
    run = "import sys; from pathlib import Path; import ledgence_project.embedded.__main__ as m; "
    run += f"m.CHECKOUT = Path({str(checkout)!r}); sys.exit(m.main(sys.argv[1:]))"
    command = [sys.executable, "-c", run, "run", "--", sys.executable, "-c", code]
    environment = {k: v for k, v in os.environ.items() if k != "DATABASE_URL"}
    with subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        psycopg.connect(address.read_text()).close()
        owner.terminate()
        owner.wait(30)
    assert owner.returncode == 128 + signal.SIGTERM
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(address.read_text())
