"""Signals that stop a server: those who asked are told first, and whoever handled them still does."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from ledgence.http.stop_signals import call_before

NUMBER = signal.SIGUSR2


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    previous = signal.getsignal(NUMBER)
    yield
    signal.signal(NUMBER, previous)


def test_it_is_called_before_the_handler_that_is_there() -> None:
    called: list[str] = []
    signal.signal(NUMBER, lambda *_: called.append("theirs"))
    call_before([NUMBER], lambda: called.append("ours"))
    signal.raise_signal(NUMBER)
    assert called == ["ours", "theirs"]


def test_a_signal_that_is_ignored_is_heard_and_ignored() -> None:
    called: list[str] = []
    signal.signal(NUMBER, signal.SIG_IGN)
    call_before([NUMBER], lambda: called.append("ours"))
    signal.raise_signal(NUMBER)
    assert called == ["ours"]


def test_a_handler_that_python_does_not_know_stays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    set_handlers: list[Any] = []
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    monkeypatch.setattr(signal, "signal", lambda *handler: set_handlers.append(handler))
    call_before([NUMBER], lambda: None)
    monkeypatch.undo()
    assert set_handlers == []
    assert "not seen" in caplog.text
