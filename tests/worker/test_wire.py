"""The wire: what is written is read back the same, and nothing else is read."""

import inspect
import math
import types
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum, StrEnum
from typing import Any, Union, cast, get_args, get_origin, get_type_hints
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgence_worker import bodies, protocol, strict_json, wire
from ledgence_worker.errors import InvalidInput
from ledgence_worker.programs import UNSET, Backoff, Unset
from ledgence_worker.protocol import Acquired, Outcome, Settlement

ID = "01a2295b-6675-71a8-b1ad-bc9e0a4dd915"
LIMIT = 100_000


def own_types(module: types.ModuleType) -> list[Any]:
    return [
        kind
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if is_dataclass(kind) and kind.__module__ == module.__name__
    ]


TYPES = [*own_types(protocol), *own_types(bodies)]

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(),
    bool: st.booleans(),
    int: st.integers(-(2**63) + 1, 2**63 - 1),
    float: st.floats(-(2.0**62), 2.0**62),
    UUID: st.uuids(),
    datetime: st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=OFFSETS),
    Any: JSON_VALUES,
    Backoff: st.builds(
        Backoff,
        initial_seconds=st.floats(0, 10),
        factor=st.floats(1, 10),
        maximum_seconds=st.floats(10, 1000),
        jitter=st.floats(0, 1),
    ),
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for a type of the wire."""
    if kind in SCALARS:
        return SCALARS[kind]
    if is_dataclass(kind):
        hints, make = get_type_hints(kind), cast("type", kind)
        return st.builds(make, **{f.name: values_of(hints[f.name]) for f in fields(kind)})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(values_of, arguments))
    if kind is types.NoneType:
        return st.none()
    if kind is Unset:
        return st.just(UNSET)
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, arguments))
    assert issubclass(kind, Enum)
    return st.sampled_from(list(kind))


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_what_is_written_is_read_back_the_same(kind: Any) -> None:
    @settings(max_examples=25, deadline=None, database=None)
    @given(values_of(kind))
    def check(value: Any) -> None:
        document = strict_json.loads(wire.encode(value), what="it", limit=LIMIT)
        assert wire.read(kind, document, "it") == value

    check()


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_every_type_refuses_what_it_does_not_know_and_what_is_no_object(kind: Any) -> None:
    document = {**smallest(kind), "unknown member": 1}
    with pytest.raises(InvalidInput, match="it has unknown members: 'unknown member'"):
        wire.read(kind, document, "it")
    for wrong in (None, True, 1, "text", [], [document]):
        with pytest.raises(InvalidInput, match="it must be an object"):
            wire.read(kind, wrong, "it")


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_of_a_reply_unknown_members_are_passed_over_and_nothing_else(kind: Any) -> None:
    document = smallest(kind)
    assert wire.read_reply(kind, {**document, "unknown member": [1]}, "it") == wire.read(kind, document, "it")
    for wrong in (None, True, 1, "text", [], [document]):
        with pytest.raises(InvalidInput, match="it must be an object"):
            wire.read_reply(kind, wrong, "it")


def test_of_a_reply_unknown_members_are_passed_over_at_every_level() -> None:
    document = {"inners": [{"count": 1, "newer": 1}], "made": {"count": 2, "newer": {}}, "newer": None}
    assert wire.read_reply(Outer, document, "it") == Outer(inners=(Inner(count=1),), made=Inner(count=2))
    with pytest.raises(InvalidInput, match=r"^it\.inners\[0\]\.count must be a whole number"):
        wire.read_reply(Outer, {"inners": [{"count": "x", "newer": 1}]}, "it")


@pytest.mark.parametrize("read", [wire.read, wire.read_reply], ids=["command", "reply"])
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_every_member_without_default_must_be_there(kind: Any, read: Any) -> None:
    document = smallest(kind)
    read(kind, document, "it")
    for name in document:
        with pytest.raises(InvalidInput, match=f"it lacks '{name}'"):
            read(kind, {key: value for key, value in document.items() if key != name}, "it")


def smallest(kind: Any) -> dict[str, Any]:
    """Return the shortest document of a type: what has a default is left out."""
    hints = get_type_hints(kind)
    required = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    return {name: example(hints[name]) for name in required}


EXAMPLES: dict[Any, Any] = {str: "x", bool: True, int: 1, float: 1.5, UUID: ID, datetime: "2030-01-01T00:00:00+00:00"}


def example(kind: Any) -> Any:
    if kind in EXAMPLES:
        return EXAMPLES[kind]
    if is_dataclass(kind):
        return smallest(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return example(arguments[0])
    if origin is tuple:
        return []
    return next(iter(kind)).value


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    """One member of each type."""

    text: str = ""
    flag: bool = False
    whole: int = 0
    number: float = 0.0
    id: UUID | None = None
    moment: datetime | None = None
    colour: Colour = Colour.RED
    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()
    row: tuple[UUID, int] | None = None
    anything: Any = None
    unset: int | Unset = UNSET
    made: Inner = field(default_factory=lambda: Inner(count=0))


WRONG: dict[str, list[Any]] = {
    "text": [None, True, 1, 1.0, [], {}],
    "flag": [None, 0, 1, "true", [], {}],
    "whole": [None, True, 1.0, "1", [], {}, 2**63, -(2**63), 10**4000],
    "number": [None, True, "1", [], {}, 2.0**64, 10**400, -(10**4000), math.inf, math.nan],
    "id": [
        True,
        1,
        "",
        "x",
        ID.upper(),
        ID.replace("-", ""),
        f"{{{ID}}}",
        f"urn:uuid:{ID}",
        f" {ID}",
        f"{ID}\n",
        ID[:-1] + "٣",
        ID[:-1] + "g",
        "01a2295b66-75-71a8-b1ad-bc9e0a4dd915",
        [ID],
    ],
    "moment": [True, 0, "", "now", "2030-01-01", "2030-01-01T00:00:00", "2030-13-01T00:00:00+00:00", [2030]],
    "colour": [None, "", "RED", "green", 0, ["red"], {"red": 1}],
    "inner": [True, 1, "x", [], {}, {"count": "1"}, {"count": 1, "more": 2}],
    "inners": [None, {}, "x", [None], [{"count": 1}, {}], {"count": 1}],
    "row": [[], [ID], [ID, 1, 2], [1, ID], {"0": ID, "1": 1}, ID],
    "unset": [None, "unset", 1.5],
    "made": [None, {}],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [pytest.param(name, value, id=f"{name}-{n}") for name, values in WRONG.items() for n, value in enumerate(values)],
)
def test_a_value_of_another_type_is_refused_and_its_place_named(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        wire.read(Outer, {name: value}, "it")
    assert str(caught.value).startswith(f"it.{name}")
    assert len(str(caught.value)) < 300


RIGHT: dict[str, list[tuple[Any, Any]]] = {
    "whole": [(0, 0), (2**63 - 1, 2**63 - 1), (1 - 2**63, 1 - 2**63)],
    "number": [(1, 1.0), (-0.5, -0.5), (2**62, 2.0**62)],
    "id": [(ID, UUID(ID)), (None, None)],
    "moment": [
        ("2030-01-01T00:00:00Z", datetime(2030, 1, 1, tzinfo=UTC)),
        ("2030-01-01T00:00:00.000001-01:30", datetime(2030, 1, 1, 1, 30, 0, 1, tzinfo=UTC)),
        (None, None),
    ],
    "colour": [("blue", Colour.BLUE)],
    "inners": [([], ()), ([{"count": 1}], (Inner(count=1),))],
    "row": [([ID, 1], (UUID(ID), 1))],
    "anything": [(None, None), ({"a": [1]}, {"a": [1]})],
    "unset": [(1, 1)],
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_value_of_its_type_is_read(name: str) -> None:
    for value, expected in RIGHT[name]:
        found = getattr(wire.read(Outer, {name: value}, "it"), name)
        assert (type(found), found) == (type(expected), expected)


def test_the_place_of_what_is_wrong_is_told() -> None:
    with pytest.raises(InvalidInput, match=r"^it\.inners\[1\]\.count must be a whole number, not 'x'\.$"):
        wire.read(Outer, {"inners": [{"count": 1}, {"count": "x"}]}, "it")


def test_of_a_million_unknown_members_a_few_are_told() -> None:
    with pytest.raises(InvalidInput) as caught:
        wire.read(Outer, {f"{'x' * 100}{n}": n for n in range(10_000)}, "it")
    assert len(str(caught.value)) < 300


def test_what_is_at_its_default_is_left_out() -> None:
    assert wire.encode(Acquired()) == b"{}"
    assert wire.write(Outer(whole=1, unset=0)) == {"whole": 1, "unset": 0, "made": {"count": 0}}


def test_half_a_surrogate_pair_that_a_program_printed_is_replaced() -> None:
    settlement = Settlement(
        task_id=UUID(ID),
        number=1,
        token=UUID(ID),
        outcome=Outcome.CRASHED,
        report=protocol.Report(output="a\ud800b"),
    )
    document = strict_json.loads(wire.encode(settlement), what="it", limit=LIMIT)
    assert wire.read(Settlement, document, "it").report.output == "a?b"
