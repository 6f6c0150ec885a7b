"""A configuration document, in TOML or JSON by its file's ending, which knows on which line each value stands."""

import json
import os
import re
import stat
import tomllib
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ledgence_worker.delivery.json_places import Place, read_json
from ledgence_worker.errors import InvalidInput

#: A file is smaller than this.
DOCUMENT_BYTES: Final = 16 * 1024
_TOML_LINE: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a file says. ``value`` is Any: its shape is the writer's affair."""

    path: str
    value: Any
    line_of: Callable[[Place], int]

    def at(self, place: Place) -> Any:
        """Return the value at a place that exists."""
        value = self.value
        for step in place:
            value = value[step]
        return value

    def wrong(self, place: Place, text: str) -> InvalidInput:
        """Return the error that names the file and the line of a place."""
        return _wrong(self.path, self.line_of(place), text)


def read_document(path: str) -> Document:
    """Read a regular file under DOCUMENT_BYTES strictly. Raises InvalidInput, with the line where it is wrong."""
    readers = {".toml": _read_toml, ".json": _read_json}
    reader = readers.get(Path(path).suffix)
    if reader is None:
        raise InvalidInput(f"{path} must end in {' or '.join(readers)}: that tells how it is written.")
    return reader(path, _read_text(path))


def _read_text(path: str) -> str:
    try:
        # Without O_NONBLOCK the opening of a pipe would wait for whoever writes to it.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidInput(f"{path} is not a regular file.")
            content = file.read(DOCUMENT_BYTES)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path!r} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if len(content) == DOCUMENT_BYTES:
        raise InvalidInput(f"{path} is too large: it must have less than {DOCUMENT_BYTES} bytes.")
    try:
        return content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _wrong(path, line, f"byte {error.start} is not UTF-8.") from None


def _read_json(path: str, text: str) -> Document:
    try:
        value, offsets = read_json(text)
    except json.JSONDecodeError as error:
        raise _wrong(path, error.lineno, f"it is not valid JSON: {error.msg}.") from None
    return Document(path=path, value=value, line_of=lambda place: text.count("\n", 0, offsets[place]) + 1)


def _read_toml(path: str, text: str) -> Document:
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise InvalidInput(f"{path} is nested too deep.") from None
    except ValueError as error:
        told = _TOML_LINE.search(str(error))
        line = int(told[1]) if told and told[1] else text.count("\n") + 1
        reason = _TOML_LINE.sub("", str(error)).replace("Cannot overwrite a value", "a field stands twice")
        raise _wrong(path, line, f"it is not valid TOML: {reason}.") from None
    return Document(path=path, value=value, line_of=lambda place: _toml_line(text.split("\n"), place))


def _toml_line(lines: list[str], place: Place) -> int:
    """Return the line on which the statement or the array's item begins that makes a place: tomllib tells none."""

    def whole(end: int) -> tuple[int, Mapping[str, Any]]:
        """Return how many of the first ``end`` lines hold nothing unfinished but an array, and what they say."""
        while True:
            for closing in ("", "\n]"):
                try:
                    return end, tomllib.loads("\n".join(lines[:end]) + closing)
                except ValueError:
                    continue
            end -= 1

    end = bisect_left(range(len(lines) + 1), True, key=lambda end: _has(whole(end)[1], place))
    return whole(end - 1)[0] + 1 if end else 1


def _has(value: Any, place: Place) -> bool:
    for step in place:
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                return False
        elif not isinstance(value, dict) or step not in value:
            return False
        value = value[step]
    return True


def _wrong(path: str, line: int, text: str) -> InvalidInput:
    return InvalidInput(f"{path}, line {line}: {text}")
