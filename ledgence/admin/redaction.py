"""What no page shows of data and results: the values of the keys that a setting names, and where reports quote them."""

import json
import re
from collections.abc import Collection, Iterator
from itertools import chain
from uuid import UUID

from django.db.models import TextField
from django.db.models.functions import Cast

from ledgence.conf import get_settings
from ledgence.models import Task

REDACTED = "[redacted]"

#: Shorter values are too common to be sought in other text: much that is no secret would be hidden.
SOUGHT_CHARACTERS_MIN = 4

# Whole strings first: what looks like structure inside them is not.
JSON_PART = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{},:]|[^\s"\[\]{},:]+')


def redact(text: str) -> str:
    """Return JSON text, which may be cut anywhere, without the values of redacted keys; the rest stays as written."""
    shown, at = [], 0
    for start, end in _hidden_spans(text):
        shown += [text[at:start], f'"{REDACTED}"']
        at = end
    return "".join([*shown, text[at:]])


def data_of(task: UUID) -> str:
    """Return a task's data as they are written, whole; empty for a task that is gone."""
    data = Task.objects.using(get_settings().database).filter(pk=task).values_list(Cast("data", TextField()), flat=True)
    return data.first() or ""


def secrets_of(data: str) -> frozenset[str]:
    """Return the strings and numbers that stand under redacted keys of JSON text."""
    found = chain.from_iterable(_scalars(data[start:end]) for start, end in _hidden_spans(data))
    return frozenset(value for value in found if len(value) >= SOUGHT_CHARACTERS_MIN)


def hide(text: str, secrets: Collection[str]) -> str:
    """Return text without the secrets that it quotes, as they are or as Python and JSON write them in strings."""
    written = {form for value in secrets for form in _forms(value)}
    # The longest first: one may stand in another.
    for form in sorted(written, key=len, reverse=True):
        text = text.replace(form, REDACTED)
    return text


def _forms(value: str) -> Iterator[str]:
    yield value
    yield repr(value)[1:-1]
    for is_ascii in (True, False):
        yield json.dumps(value, ensure_ascii=is_ascii)[1:-1]


def _hidden_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the values of redacted keys begin and end."""
    words = tuple(_plain(word) for word in get_settings().redacted_keys)
    parts = JSON_PART.finditer(text)
    before = ""
    for part in parts:
        if part[0] == ":" and _is_redacted(before, words) and (value := next(parts, None)):
            yield value.start(), _end_of(value, parts)
        before = part[0]


def _is_redacted(key: str, words: tuple[str, ...]) -> bool:
    name = _plain(_read(key))
    return any(word in name for word in words)


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def _end_of(value: re.Match[str], rest: Iterator[re.Match[str]]) -> int:
    """Return where a value ends, having taken the rest of its parts."""
    depth, end = 0, value.end()
    for part in chain([value], rest):
        depth += (part[0] in ("[", "{")) - (part[0] in ("]", "}"))
        end = part.end()
        if depth <= 0:
            break
    return end


def _scalars(text: str) -> Iterator[str]:
    """Yield the strings and numbers of a JSON value, without the keys of its objects."""
    parts = [part[0] for part in JSON_PART.finditer(text)]
    for part, after in zip(parts, [*parts[1:], ""], strict=True):
        if after != ":" and part not in ("[", "]", "{", "}", ",", ":", "true", "false", "null"):
            yield _read(part)


def _read(part: str) -> str:
    """Return the text of a string, or a number as it is written; what is neither, as it stands."""
    try:
        value = json.loads(part)
    except ValueError:
        return part
    return value if isinstance(value, str) else part
