"""The statements' texts, and how their parameters are written."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any
from uuid import UUID

type Rows = list[tuple[Any, ...]]


@cache
def text(name: str) -> str:
    """Return the statement ``name`` (its file's name without .sql), without its comments."""
    lines = resources.files("ledgence.sql").joinpath(f"{name}.sql").read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("--"))


def bind(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as they are sent: a list as an array in PostgreSQL's own notation."""
    return {key: _array(value) if type(value) is list else value for key, value in parameters.items()}


def storable(value: str) -> str:
    """Escape what no text column takes: NUL, and halves of surrogate pairs."""
    return value.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


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
    if isinstance(value, UUID):
        # A third of the time that its usual spelling takes.
        return value.hex
    # Numbers and moments need no escape; a moment has a blank, which quotes allow.
    return f'"{value}"'
