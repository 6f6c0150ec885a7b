"""Stops an operation after one of its statements, until the test lets it go on or breaks it off."""

import threading
from collections.abc import Callable
from typing import Any

DEADLINE_SECONDS = 20.0
# What brackets an operation or sets its time-out decides nothing, so there is no stop after it.
BRACKETS = ("SAVEPOINT", "RELEASE", "ROLLBACK", "select set_config", "select current_setting")


class BrokenOff(Exception):
    """The operation's process died here: its transaction is rolled back."""


class Gate:
    """Wraps the statements of a connection (``connection.execute_wrapper``): the ``stop``-th one holds it."""

    def __init__(self, stop: int) -> None:
        self._stop = stop
        self._seen = 0
        self._open = threading.Event()
        self._broken = False
        #: Set when the operation stands at the stop, or has ended without coming to it.
        self.arrived = threading.Event()
        self.is_held = False

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if not sql.startswith(BRACKETS):
            self._seen += 1
            if self._seen == self._stop:
                self._hold(sql)
        return result

    def _hold(self, sql: str) -> None:
        self.is_held = True
        self.arrived.set()
        assert self._open.wait(DEADLINE_SECONDS), f"nobody let the operation go on after {sql[:60]!r}"
        if self._broken:
            raise BrokenOff

    def let_go(self, *, broken: bool) -> None:
        self._broken = broken
        self._open.set()
