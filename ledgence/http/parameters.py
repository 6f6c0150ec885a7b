"""What the query of a request may hold: how each parameter is read, and how it is described."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ledgence.http.descriptions import IDENTIFIER
from ledgence_worker.errors import InvalidInput
from ledgence_worker.identifiers import check_identifier

# As JSON has them: float() and int() take digits of every script, underscores, blanks and words as well.
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,20})(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?")
WHOLE = re.compile("-?(?:0|[1-9][0-9]{0,18})")
UUID_TEXT = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter: what it is for, what its value may be, and how its text becomes that. Reading: InvalidInput."""

    about: str
    schema: Mapping[str, Any]
    #: Takes the text and the place of it, for errors.
    read: Callable[[str, str], Any]


def text(about: str) -> Parameter:
    """Describe a parameter that is any text without a NUL."""

    def read(value: str, place: str) -> str:
        if "\0" in value:
            raise InvalidInput(f"{place} holds a NUL.")
        return value

    return Parameter(about=about, schema={"type": "string", "pattern": r"^[^\x00]*$"}, read=read)


def identifier(about: str) -> Parameter:
    """Describe a parameter that is the name of something."""
    return Parameter(about=about, schema=IDENTIFIER, read=lambda value, place: check_identifier(value, what=place))


def one_of(about: str, values: Iterable[str]) -> Parameter:
    """Describe a parameter that is one of a few words."""
    words = list(values)

    def read(value: str, place: str) -> str:
        if value not in words:
            raise InvalidInput(f"{place} must be one of {', '.join(words)}, not {value[:40]!r}.")
        return value

    return Parameter(about=about, schema={"enum": words}, read=read)


def number(about: str, low: float, high: float) -> Parameter:
    """Describe a parameter that is a number of a range."""

    def read(value: str, place: str) -> float:
        if not NUMBER.fullmatch(value) or not low <= float(value) <= high:
            raise InvalidInput(f"{place} must be a number from {low:g} to {high:g}, not {value[:40]!r}.")
        return float(value)

    return Parameter(about=about, schema={"type": "number", "minimum": low, "maximum": high}, read=read)


def whole_number(about: str, low: int, high: int) -> Parameter:
    """Describe a parameter that is a whole number of a range."""

    def read(value: str, place: str) -> int:
        if not WHOLE.fullmatch(value) or not low <= int(value) <= high:
            raise InvalidInput(f"{place} must be a whole number from {low} to {high}, not {value[:40]!r}.")
        return int(value)

    return Parameter(about=about, schema={"type": "integer", "minimum": low, "maximum": high}, read=read)


def uuid(about: str) -> Parameter:
    """Describe a parameter that is a UUID in its one spelling; its value is text."""

    def read(value: str, place: str) -> str:
        if not UUID_TEXT.fullmatch(value):
            raise InvalidInput(f"{place} must be a UUID in lower case with hyphens, not {value[:40]!r}.")
        return value

    schema = {"type": "string", "format": "uuid", "pattern": f"^{UUID_TEXT.pattern}$"}
    return Parameter(about=about, schema=schema, read=read)
