"""The named statements: one .sql file each, which says what it locks and which index it needs."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from django.db import connections


@cache
def text(name: str) -> str:
    """Return the statement ``name`` (its file's name without .sql), without its comments."""
    lines = resources.files(__name__).joinpath(f"{name}.sql").read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("--"))


def run(name: str, using: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
    """Execute the statement ``name`` on the database ``using`` and return its rows (none for a plain write)."""
    with connections[using].cursor() as cursor:
        cursor.execute(text(name), parameters)
        return cursor.fetchall() if cursor.description is not None else []
