"""Bodies: counted while they arrive, in bytes and seconds, and large ones are refused before they are taken."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ledgence.http import body
from ledgence.http.body import SMALL_BYTES, Bodies
from ledgence.http.replies import Refused
from ledgence.http.routing import Head, read_head
from ledgence_worker.errors import Busy, Unauthenticated

MIB = 1024 * 1024
ID = "01a2295b-6675-71a8-b1ad-bc9e0a4dd915"


class Sender:
    """Sends parts of a body, and counts what was asked for."""

    def __init__(self, parts: AsyncIterator[bytes] | list[bytes], *, hangs_up: bool = False) -> None:
        self._parts = parts
        self._hangs_up = hangs_up
        self.asked = 0

    async def receive(self) -> dict[str, Any]:
        self.asked += 1
        if not isinstance(self._parts, list):
            return {"type": "http.request", "body": await anext(self._parts), "more_body": True}
        if self._parts:
            return {"type": "http.request", "body": self._parts.pop(0), "more_body": True}
        return (
            {"type": "http.disconnect"} if self._hangs_up else {"type": "http.request", "body": b"", "more_body": False}
        )


def head_of(length: int | None, path: str = "tasks", method: str = "POST") -> Head:
    return read_head(method, path, "", {} if length is None else {"content-length": str(length)})


async def admit() -> None:
    """Let everybody in."""


async def refuse() -> None:
    raise Unauthenticated("no")


def take(bodies: Bodies, sender: Sender, head: Head, admit: Callable[[], Any] = admit) -> bytes:
    return asyncio.run(bodies.take(head, sender.receive, admit)).content


def test_a_body_is_joined_from_its_parts() -> None:
    bodies = Bodies()
    assert take(bodies, Sender([b"a", b"", b"bc"]), head_of(3)) == b"abc"
    assert take(bodies, Sender([]), head_of(0)) == b""


def test_a_body_of_a_million_single_bytes_costs_their_size() -> None:
    assert take(Bodies(), Sender([b"x"] * 100_000), head_of(None)) == b"x" * 100_000


@pytest.mark.parametrize("length", [SMALL_BYTES + 1, None], ids=["large", "in chunks"])
def test_nothing_of_a_large_body_is_taken_from_who_is_not_admitted(length: int | None) -> None:
    sender = Sender([b"x"])
    with pytest.raises(Unauthenticated):
        take(Bodies(), sender, head_of(length), refuse)
    assert sender.asked == 0


def test_a_small_body_is_taken_first() -> None:
    assert take(Bodies(), Sender([b"x" * SMALL_BYTES]), head_of(SMALL_BYTES), refuse) == b"x" * SMALL_BYTES


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b"x" * MIB


@pytest.mark.parametrize(
    ("path", "method", "mebibytes"),
    [("tasks", "POST", 4), (f"sessions/{ID}/settle", "POST", 20), (f"sessions/{ID}/renew", "POST", 1)],
)
def test_a_body_without_end_is_refused_where_it_becomes_too_large(path: str, method: str, mebibytes: int) -> None:
    sender, bodies = Sender(endless()), Bodies()
    with pytest.raises(Refused) as caught:
        take(bodies, sender, head_of(None, path, method))
    assert caught.value.status == 413
    assert sender.asked == mebibytes + 1
    assert bodies._held == 0


def test_a_body_where_none_is_taken_is_refused_with_its_first_byte() -> None:
    sender = Sender(endless())
    with pytest.raises(Refused) as caught:
        take(Bodies(), sender, head_of(None, "health/live", "GET"))
    assert (caught.value.status, sender.asked) == (400, 1)


def test_a_body_that_drips_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "BODY_SECONDS", 0.1)

    async def drip() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.01)
            yield b"x"

    bodies = Bodies()
    with pytest.raises(Refused, match=r"within 0\.1 s") as caught:
        take(bodies, Sender(drip()), head_of(1000))
    assert caught.value.status == 408
    assert bodies._held == 0


def test_a_body_that_is_cut_short_is_no_body() -> None:
    bodies = Bodies()
    with pytest.raises(Refused) as caught:
        take(bodies, Sender([b"{}"], hangs_up=True), head_of(10))
    assert caught.value.status == 408
    assert bodies._held == 0


def test_the_bodies_of_a_process_have_a_limit_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "HELD_BYTES_MAX", 10)
    bodies = Bodies()
    first = asyncio.run(bodies.take(head_of(8), Sender([b"12345678"]).receive, admit))
    with pytest.raises(Busy, match="nothing was done"):
        take(bodies, Sender([b"1", b"23"]), head_of(3))
    assert take(bodies, Sender([b"12"]), head_of(2)) == b"12"
    first.let_go()
    assert (first.content, bodies._held) == (b"", 2)
    first.let_go()
    assert bodies._held == 2
