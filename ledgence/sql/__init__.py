"""The named statements: one .sql file each, which says what it locks and which index it needs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import Any

from django.db import connections
from psycopg.pq import ExecStatus

type Rows = list[tuple[Any, ...]]


@cache
def text(name: str) -> str:
    """Return the statement ``name`` (its file's name without .sql), without its comments."""
    lines = resources.files(__name__).joinpath(f"{name}.sql").read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("--"))


def run(name: str, using: str, parameters: Mapping[str, Any] | None = None) -> Rows:
    """Execute the statement ``name`` on the database ``using`` and return its rows (none for a plain write).

    A list is sent as an array in PostgreSQL's own notation; the statement casts it to its type.
    """
    with connections[using].cursor() as cursor:
        cursor.execute(text(name), _bind(parameters))
        return _rows(cursor, using)


def send(name: str, using: str, parameters: Mapping[str, Any] | None = None) -> Callable[[], Rows]:
    """Send the statement ``name`` and return what fetches its rows.

    In a pipeline (see pipelined) several statements go out before the first answer is read; an error of one is raised
    by the next fetch or the commit. Elsewhere the statement is executed at once.
    """
    connection = connections[using]
    if getattr(connection, "pipeline", None) is None:
        rows = run(name, using, parameters)
        return lambda: rows
    cursor = connection.cursor()
    cursor.execute(text(name), _bind(parameters))
    return lambda: _rows(cursor, using)


@contextmanager
def pipelined(using: str) -> Iterator[None]:
    """Let statements be sent without waiting for each answer, where the connection is a worker's (can_pipeline).

    A round trip costs more than most of a worker's statements. Begin it outside the transaction: the commit ends it.
    """
    # Any: the two attributes are those of WorkerConnections' wrappers.
    connection: Any = connections[using]
    if not getattr(connection, "can_pipeline", False) or connection.pipeline is not None:
        yield
        return
    connection.ensure_connection()
    # The pipeline raises the driver's own errors when it reads answers.
    with connection.wrap_database_errors, connection.connection.pipeline() as connection.pipeline:
        try:
            yield
        finally:
            connection.pipeline = None


def _rows(cursor: Any, using: str) -> Rows:
    if cursor.pgresult is None:
        connection: Any = connections[using]
        with connection.wrap_database_errors:
            connection.pipeline.sync()
    return cursor.fetchall() if cursor.pgresult.status == ExecStatus.TUPLES_OK else []


def _bind(parameters: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return parameters and {k: _array(value) if type(value) is list else value for k, value in parameters.items()}


def _array(values: list[Any]) -> str:
    """Write a one-dimensional array. The driver would look for each element's type first, which costs more than it."""
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, bytes):
        return f'"\\\\x{value.hex()}"'
    # UUID, int and datetime need no escape; a datetime has a blank, which quotes allow.
    return f'"{value}"'
