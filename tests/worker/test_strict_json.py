"""Strict JSON: what is refused, what is kept, and that both ways agree."""

import json
from collections import OrderedDict
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgence_worker.errors import InvalidInput
from ledgence_worker.limits import DATA_BYTES, JSON_DEPTH
from ledgence_worker.strict_json import canonical, dumps, loads

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(scalars | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20)


class Point(NamedTuple):
    x: int
    y: int


class Level(IntEnum):
    HIGH = 2


class Colour(StrEnum):
    RED = "red"


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@given(values)
def test_what_is_encoded_comes_back(value: object) -> None:
    text = dumps(value, what="x")
    assert loads(text, what="x") == loads(text.encode(), what="x") == value
    assert json.loads(canonical(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"n": 1}, '{"n":1}'),
        ((1, 2), "[1,2]"),
        (Point(1, 2), "[1,2]"),
        ([Level.HIGH, Colour.RED], '[2,"red"]'),
        (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
        ("a\0b é 😀", '"a\\u0000b é 😀"'),
        ([1.0, -0.0, 1e22, True, None], "[1.0,-0.0,1e+22,true,null]"),
        (10**4299, "1" + "0" * 4299),
    ],
)
def test_values_have_one_compact_spelling(value: object, text: str) -> None:
    assert dumps(value, what="x") == text


def cyclic() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        [float("inf")],
        {"x": {"y": float("-inf")}},
        "\ud800",
        {"\udfff": 1},
        ["\udc00\ud800"],
        {1: 2},
        {None: 2},
        {"x": [{True: 1}]},
        b"bytes",
        {1, 2},
        object(),
        [object],
        nested(JSON_DEPTH + 1),
        nested(5000),
        cyclic(),
        10**4301,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_keep_is_not_encoded(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"^The data "):
        dumps(value, what="The data")


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "[Infinity]",
        '{"x":-Infinity}',
        "1e400",
        "[-1e999]",
        '"\\ud800"',
        '{"\\uDC00":1}',
        '"\\udc00\\ud800"',
        '"\ud800"',
        '{"a":1,"a":1}',
        '[{"a":{"b":1,"b":2}}]',
        "1" * 4301,
        "[" * (JSON_DEPTH + 1) + "]" * (JSON_DEPTH + 1),
        '{"a":' * (JSON_DEPTH + 1) + "1" + "}" * (JSON_DEPTH + 1),
        "[" * 100_000 + "]" * 100_000,
        "[" * 100_000,
        "",
        " ",
        "{",
        "1 2",
        "'a'",
        "\ufeff1",
        b"\xff",
        b"\xef\xbb\xbf1",
        "1".encode("utf-16"),
        b'"\xed\xa0\x80"',
    ],
    ids=lambda text: repr(text[:12]),
)
def test_what_is_not_strict_json_is_not_decoded(text: str | bytes) -> None:
    with pytest.raises(InvalidInput, match=r"^The body "):
        loads(text, what="The body")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"\\ud83d\\ude00"', "😀"),
        ('"\\\\ud800"', "\\ud800"),
        ('"' + "[" * 1000 + '"', "[" * 1000),
        ("[" * JSON_DEPTH + "]" * JSON_DEPTH, nested(JSON_DEPTH)),
        ('"\\u0000"', "\0"),
        ("-0.0", -0.0),
        (' {"a" : [ ] } ', {"a": []}),
    ],
)
def test_odd_json_is_decoded(text: str, value: object) -> None:
    assert loads(text, what="x") == value


def test_the_deepest_value_is_encoded() -> None:
    assert loads(dumps(nested(JSON_DEPTH), what="x"), what="x") == nested(JSON_DEPTH)


def test_sizes_are_bytes_of_utf_8() -> None:
    room = DATA_BYTES - 2
    for text in ("x" * room, "é" * (room // 2)):
        assert len(dumps(text, what="x").encode()) == DATA_BYTES
        assert loads(dumps(text, what="x"), what="x", limit=DATA_BYTES) == text
        for tested in (
            lambda text: dumps(text + "x", what="x"),
            lambda text: loads(f'"{text}x"', what="x", limit=DATA_BYTES),
        ):
            with pytest.raises(InvalidInput, match="too large"):
                tested(text)


def test_a_small_value_that_repeats_itself_without_end_is_refused_soon() -> None:
    value: Any = [1]
    for _ in range(JSON_DEPTH - 1):
        value = [value, value]
    with pytest.raises(InvalidInput, match="too large"):
        dumps(value, what="x", limit=10_000)


def test_the_canonical_form_ignores_the_order_of_keys() -> None:
    assert canonical({"b": [1, {"d": 1, "c": 2}], "a": "é"}) == canonical({"a": "é", "b": [1, {"c": 2, "d": 1}]})
    assert canonical({"a": 1}) != canonical({"a": 1.0})
