"""Registering programs: names, conflicts, defaults, retry words."""

from collections.abc import Iterator
from typing import Any

import pytest

from ledgence_worker import Backoff, Conflict, Context, InvalidInput, NotFound, Outcome, program, programs


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(programs, "_registry", {})
    yield


def inspect_file(event: Any) -> Any:
    """Look at a file."""
    return event


async def with_context(event: Any, context: Context) -> Any:
    return event, context


def test_a_program_is_found_by_name_and_version() -> None:
    made = program("inspect-file", version="1")(inspect_file)
    assert programs.find("inspect-file", "1") is made
    assert made.entry_point == f"{__name__}:inspect_file"
    assert made.__doc__ == "Look at a file."
    assert made("event") == "event"
    assert not made.takes_context
    assert program("other", version="1")(with_context).takes_context
    assert [entry.name for entry in programs.catalogue()] == ["inspect-file", "other"]


def test_an_unknown_program_is_not_found() -> None:
    program("inspect-file", version="1")(inspect_file)
    with pytest.raises(NotFound, match="'inspect-file' version '2'"):
        programs.find("inspect-file", "2")


def test_another_function_under_a_known_version_is_a_conflict() -> None:
    first = program("inspect-file", version="1")(inspect_file)
    with pytest.raises(Conflict, match="give the new function another version"):
        program("inspect-file", version="1")(with_context)
    assert programs.find("inspect-file", "1") is first
    program("inspect-file", version="2")(with_context)


def test_the_same_function_may_be_registered_again() -> None:
    program("inspect-file", version="1", timeout=5.0)(inspect_file)
    program("inspect-file", version="1", timeout=6.0)(inspect_file)
    assert programs.find("inspect-file", "1").defaults.timeout_seconds == 6.0


def test_defaults_tell_what_was_given_from_what_was_not() -> None:
    bare = program("bare", version="1")(inspect_file).defaults
    assert {bare.queue, bare.timeout_seconds, bare.max_attempts, bare.backoff, bare.retry_on} == {programs.UNSET}
    full = program(
        "full",
        version="1",
        queue="files",
        timeout=None,
        max_attempts=5,
        backoff=Backoff(initial_seconds=1.0),
        retry_on=(Outcome.CRASHED, ConnectionError, "requests.exceptions.Timeout", "timed_out"),
    )(inspect_file).defaults
    assert full.queue == "files"
    assert full.timeout_seconds is None
    assert full.max_attempts == 5
    assert full.retry_on == ("crashed", "builtins.ConnectionError", "requests.exceptions.Timeout", "timed_out")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "x" * 129},
        {"name": "é" * 65},
        {"name": "a\nb"},
        {"name": " a"},
        {"name": "a\0"},
        {"name": "\ud800"},
        {"name": 1},
        {"version": ""},
        {"version": None},
        {"queue": ""},
        {"timeout": 0},
        {"timeout": -1.0},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"timeout": True},
        {"max_attempts": 0},
        {"max_attempts": "3"},
        {"retry_on": (Outcome.SUCCEEDED,)},
        {"retry_on": ("cancelled",)},
        {"retry_on": ("sometimes",)},
        {"retry_on": ("a..b",)},
        {"retry_on": (int,)},
        {"retry_on": (None,)},
    ],
    ids=str,
)
def test_wrong_registrations_are_refused(wrong: dict[str, Any]) -> None:
    arguments = {"name": "inspect-file", "version": "1"} | wrong
    with pytest.raises(InvalidInput):
        program(arguments.pop("name"), **arguments)(inspect_file)


@pytest.mark.parametrize("function", [lambda: None, lambda a, b, c: None, lambda event, *, needed: None])
def test_a_function_must_take_the_event(function: Any) -> None:
    with pytest.raises(InvalidInput, match=r"must take \(event\) or \(event, context\)"):
        program("inspect-file", version="1")(function)


@pytest.mark.parametrize(
    "wrong",
    [
        {"initial_seconds": -1.0},
        {"initial_seconds": float("nan")},
        {"factor": 0.5},
        {"factor": 11.0},
        {"maximum_seconds": 31_536_001.0},
        {"maximum_seconds": float("inf")},
        {"initial_seconds": 20.0, "maximum_seconds": 10.0},
        {"jitter": -0.1},
        {"jitter": 1.1},
    ],
    ids=str,
)
def test_a_backoff_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match=r"^backoff "):
        Backoff(**wrong)
