"""Commands and replies as JSON values: the fields of their dataclasses by name, read back strictly.

UUIDs and times are text, tuples are arrays, and a field at its default may be left out. Whatever else is missing or of
another type is refused with InvalidInput that names the place, before anything is done with it. So are unknown members
of a command; those of a reply are passed over, as a newer service may send them.
"""

import json
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, Final, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from ledgence_worker.errors import InvalidInput
from ledgence_worker.programs import Unset

#: Any: a value of JSON. The second argument is the place in the document, for errors.
type Reader = Callable[[Any, str], Any]
type Writer = Callable[[Any], Any]

#: PostgreSQL's bigint, which is wider than any number of the protocol.
_INTEGER_MAX: Final = 2**63 - 1


def read(kind: Any, value: object, what: str) -> Any:
    """Read a type of the protocol from a JSON value. Raises InvalidInput, which names the place within ``what``."""
    return _reader(kind, True)(value, what)


def read_reply(kind: Any, value: object, what: str) -> Any:
    """Read a type as read() does, but pass over the members that it does not have, at every level."""
    return _reader(kind, False)(value, what)


def write(value: object) -> Any:
    """Return a dataclass as a JSON value. Fields at their defaults are left out."""
    return _write(value)


@cache
def _reader(kind: Any, is_closed: bool) -> Reader:
    """Return what reads a type: made once for each. ``is_closed``: unknown members are refused."""
    if is_dataclass(kind):
        return _read_dataclass(kind, is_closed)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        # What is unset is left out, so it has no value of its own.
        [inner] = [argument for argument in arguments if argument not in (types.NoneType, Unset)]
        reader = _reader(inner, is_closed)
        return _read_optional(reader) if types.NoneType in arguments else reader
    if kind is Any:
        return lambda value, what: value
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return _read_array(_reader(arguments[0], is_closed))
        return _read_row(tuple(_reader(argument, is_closed) for argument in arguments))
    if issubclass(kind, Enum):
        return _read_enum(kind)
    return _SCALARS[kind]


def _read_dataclass(kind: Any, is_closed: bool) -> Reader:
    names = _names(kind)
    readers = {name: _reader(hint, is_closed) for name, hint in get_type_hints(kind).items() if name in names}
    required = {field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING}

    def reader(value: Any, what: str) -> Any:
        if type(value) is not dict:
            raise _wrong(what, "an object", value)
        if is_closed and not readers.keys() >= value.keys():
            raise InvalidInput(f"{what} has unknown members: {_listed(value.keys() - readers.keys())}.")
        if not value.keys() >= required:
            raise InvalidInput(f"{what} lacks {_listed(required - value.keys())}.")
        known = {name: member for name, member in value.items() if name in readers}
        return kind(**{name: readers[name](member, f"{what}.{name}") for name, member in known.items()})

    return reader


def _names(kind: Any) -> set[str]:
    return {field.name for field in fields(kind)}


def _listed(names: set[str]) -> str:
    # A document may have a million members.
    return ", ".join(repr(name[:40]) for name in sorted(names)[:5])


def _read_optional(inner: Reader) -> Reader:
    return lambda value, what: None if value is None else inner(value, what)


def _read_array(inner: Reader) -> Reader:
    def reader(value: Any, what: str) -> Any:
        if type(value) is not list:
            raise _wrong(what, "an array", value)
        return tuple(inner(item, f"{what}[{place}]") for place, item in enumerate(value))

    return reader


def _read_row(inner: tuple[Reader, ...]) -> Reader:
    def reader(value: Any, what: str) -> Any:
        if type(value) is not list or len(value) != len(inner):
            raise _wrong(what, f"an array of {len(inner)}", value)
        return tuple(read(item, what) for read, item in zip(inner, value, strict=True))

    return reader


def _read_enum(kind: type[Enum]) -> Reader:
    members: dict[Any, Enum] = {member.value: member for member in kind}

    def reader(value: Any, what: str) -> Any:
        if type(value) is not str or value not in members:
            raise _wrong(what, f"one of {', '.join(members)}", value)
        return members[value]

    return reader


def _read_str(value: Any, what: str) -> str:
    if type(value) is not str:
        raise _wrong(what, "text", value)
    return value


def _read_bool(value: Any, what: str) -> bool:
    if type(value) is not bool:
        raise _wrong(what, "true or false", value)
    return value


def _read_int(value: Any, what: str) -> int:
    if type(value) is not int or not -_INTEGER_MAX <= value <= _INTEGER_MAX:
        raise _wrong(what, "a whole number", value)
    return value


def _read_float(value: Any, what: str) -> float:
    if type(value) not in (int, float) or not -_INTEGER_MAX <= value <= _INTEGER_MAX:
        raise _wrong(what, "a number", value)
    return float(value)


def _read_uuid(value: Any, what: str) -> UUID:
    # Its one spelling: UUID() takes braces, a prefix, and no hyphens as well.
    if type(value) is str and len(value) == 36:
        try:
            identifier = UUID(value)
        except ValueError:
            pass
        else:
            if str(identifier) == value:
                return identifier
    raise _wrong(what, "a UUID in lower case with hyphens", value)


def _read_time(value: Any, what: str) -> datetime:
    if type(value) is str:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            if moment.utcoffset() is not None:
                return moment
    raise _wrong(what, "a time with an offset in ISO 8601", value)


def _wrong(what: str, wanted: str, value: object) -> InvalidInput:
    shown = repr(value[:40]) if isinstance(value, str) else _kind(value)
    return InvalidInput(f"{what} must be {wanted}, not {shown}.")


def _kind(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int | float):
        # Of an integer with thousands of digits not even its text can be made.
        return str(value) if abs(value) <= _INTEGER_MAX else "a huge number"
    return "an object" if isinstance(value, dict) else "an array"


_SCALARS: Final[dict[Any, Reader]] = {
    str: _read_str,
    bool: _read_bool,
    int: _read_int,
    float: _read_float,
    UUID: _read_uuid,
    datetime: _read_time,
}


def _write(value: Any) -> Any:
    kind: Any = type(value)
    return _writer(kind)(value)


@cache
def _writer(kind: Any) -> Writer:
    """Return what writes values of a type."""
    if is_dataclass(kind):
        members = [(field.name, field.default) for field in fields(kind)]

        def writer(value: Any) -> Any:
            written = {}
            for name, default in members:
                member = getattr(value, name)
                if member is not default and member != default:
                    written[name] = _write(member)
            return written

        return writer
    if issubclass(kind, tuple | list):
        return lambda value: [_write(item) for item in value]
    if issubclass(kind, UUID):
        return str
    if issubclass(kind, datetime):
        return lambda value: value.isoformat()
    if issubclass(kind, Enum):
        return lambda value: value.value
    return lambda value: value


_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode(value: object) -> bytes:
    """Return a dataclass as a JSON document."""
    return encode_value(write(value))


def encode_value(value: object) -> bytes:
    """Return a JSON value as a document."""
    # What a program printed may hold half of a surrogate pair, which no document may.
    return _ENCODE(value).encode(errors="replace")
