"""JSON text with the place of each of its values: the decoder of the standard library tells none."""

import json
import re
from typing import Any, Final, NoReturn

#: Where a value stands in a document: the names and indexes that lead to it.
type Place = tuple[str | int, ...]

_BLANKS: Final = re.compile(r"[ \t\n\r]*")
#: No option of any adapter needs more.
_DEPTH: Final = 16


def read_json(text: str) -> tuple[Any, dict[Place, int]]:
    """Return a document, and the offset in the text at which each of its values or their names stand.

    Any: the shape of JSON is the writer's affair. Raises JSONDecodeError, also for a name that stands twice in one
    object, however it is spelled.
    """
    reader = _Reader(text)
    value, end = reader.value(0, ())
    if end != len(text):
        raise json.JSONDecodeError("something follows the document", text, end)
    return value, reader.places


class _Reader:
    """Walks objects and arrays; what they hold is decoded by the standard library."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._scalars = json.JSONDecoder(parse_constant=_refuse)
        self.places: dict[Place, int] = {}

    def value(self, at: int, place: Place) -> tuple[Any, int]:
        """Read the value after ``at``; return it, and where what follows it begins."""
        at = self._skip(at)
        self.places.setdefault(place, at)
        if len(place) > _DEPTH:
            raise self._wrong(f"it is nested deeper than {_DEPTH} levels", at)
        value: Any
        match self._text[at : at + 1]:
            case "{":
                value, end = self._object(at + 1, place)
            case "[":
                value, end = self._array(at + 1, place)
            case _:
                value, end = self._scalar(at)
        return value, self._skip(end)

    def _object(self, at: int, place: Place) -> tuple[dict[str, Any], int]:
        members: dict[str, Any] = {}
        at = self._skip(at)
        while members or not self._text.startswith("}", at):
            at = self._skip(at)
            if not self._text.startswith('"', at):
                raise self._wrong("a name in quotes must stand here", at)
            name, end = self._scalar(at)
            if name in members:
                raise self._wrong(f"the field {name[:40]!r} stands twice in one object", at)
            self.places[(*place, name)] = at
            end = self._skip(end)
            if not self._text.startswith(":", end):
                raise self._wrong("a colon must stand here", end)
            members[name], at = self.value(end + 1, (*place, name))
            if self._ends("}", at):
                break
            at += 1
        return members, at + 1

    def _array(self, at: int, place: Place) -> tuple[list[Any], int]:
        items: list[Any] = []
        at = self._skip(at)
        while items or not self._text.startswith("]", at):
            item, at = self.value(at, (*place, len(items)))
            items.append(item)
            if self._ends("]", at):
                break
            at += 1
        return items, at + 1

    def _ends(self, bracket: str, at: int) -> bool:
        """Tell whether the bracket stands at a place, where only a comma may stand otherwise."""
        if not self._text.startswith((bracket, ","), at):
            raise self._wrong(f"a comma or {bracket} must stand here", at)
        return self._text.startswith(bracket, at)

    def _scalar(self, at: int) -> tuple[Any, int]:
        try:
            return self._scalars.raw_decode(self._text, at)
        except json.JSONDecodeError:
            raise
        except ValueError as error:
            # A constant that JSON does not know, or more digits than Python takes.
            raise self._wrong(str(error), at) from None

    def _skip(self, at: int) -> int:
        blanks = _BLANKS.match(self._text, at)
        return at if blanks is None else blanks.end()

    def _wrong(self, text: str, at: int) -> json.JSONDecodeError:
        return json.JSONDecodeError(text, self._text, at)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
