"""The commands: what they show of the log, and the exit codes that they give before any work."""

import logging
import socket

import pytest
from django.core.checks import Error
from django.core.management import call_command, load_command_class
from django.core.management.base import CommandError, SystemCheckError

from ledgence.management.logs import LOGGERS, show_logs
from ledgence_worker.stopping import ExitCode


def silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A project whose LOGGING says nothing about Ledgence."""
    for logger in map(logging.getLogger, LOGGERS):
        # Those of the test run are no project's. It adds them when a test is called: a fixture would be too early.
        monkeypatch.setattr(logger, "handlers", [])
        monkeypatch.setattr(logger, "propagate", False)
        monkeypatch.setattr(logger, "level", logging.NOTSET)


def test_the_log_is_shown_where_the_project_shows_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    silence(monkeypatch)
    show_logs()
    show_logs()
    logging.getLogger("ledgence_worker.worker").info("worker started session=%s", 1)
    logging.getLogger("ledgence.housekeeping").debug("not shown")
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" INFO ")[2] for line in lines] == ["ledgence_worker.worker worker started session=1"]


def test_a_project_that_handles_the_log_decides_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    silence(monkeypatch)
    logging.getLogger("ledgence_worker").addHandler(logging.NullHandler())
    show_logs()
    logging.getLogger("ledgence_worker.worker").error("told to the project")
    assert capsys.readouterr().err == ""


def test_a_worker_whose_checks_fail_exits_as_wrongly_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "django.core.management.base.checks.run_checks", lambda **_: [Error("no PostgreSQL", id="ledgence.E003")]
    )
    with pytest.raises(SystemCheckError, match="no PostgreSQL") as caught:
        load_command_class("ledgence", "ledgence_worker").check()
    assert caught.value.returncode == ExitCode.CONFIGURATION


@pytest.mark.parametrize(("port", "words"), [(-1, "--health-port must be a number"), (None, "cannot be used")])
def test_housekeeping_without_its_health_port_exits_as_wrongly_configured(
    port: int | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(CommandError, match=words) as caught:
        call_command("ledgence_recover", health_port=taken.getsockname()[1] if port is None else port)
    assert caught.value.returncode == ExitCode.CONFIGURATION
