"""The named statements: one .sql file each, which says what it locks and which index it needs."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from django.db import connections
from psycopg.pq import ExecStatus


@cache
def text(name: str) -> str:
    """Return the statement ``name`` (its file's name without .sql), without its comments."""
    lines = resources.files(__name__).joinpath(f"{name}.sql").read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("--"))


def run(name: str, using: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
    """Execute the statement ``name`` on the database ``using`` and return its rows (none for a plain write).

    A list is sent as an array in PostgreSQL's own notation; the statement casts it to its type.
    """
    bound = parameters and {k: _array(value) if type(value) is list else value for k, value in parameters.items()}
    with connections[using].cursor() as cursor:
        cursor.execute(text(name), bound)
        return cursor.fetchall() if cursor.pgresult.status == ExecStatus.TUPLES_OK else []


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
