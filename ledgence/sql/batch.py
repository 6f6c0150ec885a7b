"""Batches: several prepared statements and their answers in one round trip, on a worker's connection."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import ClientCursor, Connection
from psycopg.pq import ExecStatus

from ledgence.sql.text import Rows, bind, text

# What each session of the server has prepared. PREPARE belongs to the session, not to the transaction.
_prepared: WeakKeyDictionary[Connection[Any], set[str]] = WeakKeyDictionary()


class Batch:
    """Collects statements until the answer of one is needed, then sends all of them as one message.

    The server stops at the first that fails, and the driver raises that error. The driver's own pipeline mode sends
    and waits for each statement; a round trip costs more than most of a worker's statements.
    """

    def __init__(self, wrapper: BaseDatabaseWrapper) -> None:
        wrapper.ensure_connection()
        self._wrapper = wrapper
        self._raw: Connection[Any] = wrapper.connection
        self._waiting: list[tuple[str, str, list[Rows]]] = []

    def add(self, name: str, parameters: Mapping[str, Any]) -> Callable[[], Rows]:
        """Add a statement and return what fetches its rows, with those of all that were added before."""
        _, names = _positional(name)
        bound = bind(parameters)
        arguments = ClientCursor(self._raw).mogrify(", ".join(["%s"] * len(names)), [bound[key] for key in names])
        answer: list[Rows] = []
        self._waiting.append((name, f'execute "{name}" ({arguments})' if names else f'execute "{name}"', answer))

        def fetch() -> Rows:
            if not answer:
                self.flush()
            return answer[0]

        return fetch

    def flush(self) -> None:
        """Send what waits and read its answers. Raises Django's database errors."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        with self._wrapper.wrap_database_errors, ClientCursor(self._raw) as cursor:
            self._prepare(cursor, {name for name, _, _ in waiting})
            cursor.execute("; ".join(call for _, call, _ in waiting))
            for _, _, answer in waiting:
                is_table = cursor.pgresult is not None and cursor.pgresult.status == ExecStatus.TUPLES_OK
                answer.append(cursor.fetchall() if is_table else [])
                cursor.nextset()

    def _prepare(self, cursor: ClientCursor[Any], names: set[str]) -> None:
        """Prepare what this session of the server does not have yet."""
        known = _prepared.setdefault(self._raw, set())
        for name in sorted(names - known):
            cursor.execute(f'prepare "{name}" as {_positional(name)[0]}')
            known.add(name)


@cache
def _positional(name: str) -> tuple[str, tuple[str, ...]]:
    """Return a statement with $1, $2 for its parameters, and their names in that order."""
    names: dict[str, int] = {}

    def place(match: re.Match[str]) -> str:
        return f"${names.setdefault(match[1], len(names) + 1)}"

    return re.sub(r"%\((\w+)\)s", place, text(name)), tuple(names)
