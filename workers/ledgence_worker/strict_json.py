"""Strict JSON, both ways: what PostgreSQL's json and every reader accept, keep and give back unchanged.

The C coder of the standard library does the work; what it lets through by default (NaN, duplicate keys, lone
surrogates, keys that are not text, any depth) is refused here with InvalidInput.
"""

import json
import math
import re
from collections import Counter
from typing import Any, Final, NoReturn

from ledgence_worker.errors import InvalidInput
from ledgence_worker.limits import DATA_BYTES, JSON_DEPTH, RESULT_BYTES

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_CANONICAL: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


def dumps(value: object, *, what: str, limit: int = DATA_BYTES) -> str:
    """Encode a value as compact JSON text of at most ``limit`` bytes of UTF-8.

    Takes dict with str keys, list, tuple, str, int, float, bool, None and their subclasses, JSON_DEPTH deep. Raises
    InvalidInput, whose text begins with ``what``.
    """
    _check(value, what=what, depth=JSON_DEPTH, limit=limit)
    try:
        text = _ENCODER.encode(value)
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise _lone_surrogate(what) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} is not valid JSON: {error}.") from None
    if size > limit:
        raise _too_large(what, f"{size} bytes", limit)
    return text


def loads(text: str | bytes, *, what: str, limit: int = RESULT_BYTES, depth: int = JSON_DEPTH) -> Any:
    """Decode JSON text (bytes: UTF-8) of at most ``limit`` bytes and ``depth`` levels. Raises InvalidInput.

    Any: the shape of JSON is the sender's affair.
    """
    size = len(text) if isinstance(text, bytes) or text.isascii() else _encoded_size(text, what)
    if size > limit:
        raise _too_large(what, f"{size} bytes", limit)
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        value = _DECODER.decode(decoded)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{what} is not UTF-8: byte {error.start} is wrong.") from None
    except RecursionError:
        raise _too_deep(what, depth) from None
    except ValueError as error:
        raise InvalidInput(f"{what} is not valid JSON: {error}.") from None
    if decoded.count("[") + decoded.count("{") > depth:
        _check(value, what=what, depth=depth, limit=limit)
    if _SURROGATE_ESCAPE.search(decoded):
        _encoded_size(_ENCODER.encode(value), what)
    return value


def canonical(value: object) -> bytes:
    """Return the one spelling of a value that dumps() accepts: compact UTF-8, keys sorted. For digests."""
    return _CANONICAL.encode(value).encode()


def _check(value: object, *, what: str, depth: int, limit: int) -> None:
    """Walk the containers level by level; whole containers of plain scalars are passed at the speed of C.

    Every item takes at least one byte, so counting them also stops values that repeat themselves without end.
    """
    level: list[object] = [value]
    levels = items = 0
    while level:
        below: list[object] = []
        for item in level:
            children = _children(item, what)
            if children is None:
                continue
            if levels == depth:
                raise _too_deep(what, depth)
            items += len(children)
            if items > limit:
                raise _too_large(what, f"more than {limit} items", limit)
            if not _SCALARS.issuperset(map(type, children)):
                below.extend(children)
        level = below
        levels += 1


def _children(item: object, what: str) -> list[object] | tuple[object, ...] | None:
    if isinstance(item, dict):
        for key in item:
            if not isinstance(key, str):
                raise InvalidInput(f"{what} is not valid JSON: a key is of type {_type_name(key)}, not str.")
        return list(item.values())
    if isinstance(item, list | tuple):
        return item
    if item is None or isinstance(item, str | int | float):
        return None
    raise InvalidInput(f"{what} is not valid JSON: it holds a value of type {_type_name(item)}; convert it first.")


def _encoded_size(text: str, what: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise _lone_surrogate(what) from None


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _too_large(what: str, size: str, limit: int) -> InvalidInput:
    return InvalidInput(f"{what} is too large: {size}; at most {limit} bytes of JSON are accepted.")


def _too_deep(what: str, depth: int) -> InvalidInput:
    return InvalidInput(f"{what} is nested too deep: at most {depth} levels are accepted.")


def _lone_surrogate(what: str) -> InvalidInput:
    return InvalidInput(f"{what} is not valid JSON: a string holds half of a surrogate pair, which is no character.")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        # Counted, not searched for each: a document may have a million keys.
        [(repeated, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {repeated[:40]!r} stands twice in one object")
    return made


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large for a double")
    return number


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
