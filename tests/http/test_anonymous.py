"""What needs no token: it costs nobody else anything, and is answered whatever stands before it."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ledgence import sql
from ledgence.housekeeping import record_turn
from ledgence.http import lanes
from ledgence.http.call import Call
from ledgence.http.endpoint import Lane, Reply
from ledgence.http.kept import Kept
from ledgence.http.table import HEALTH
from tests.http.scene import Scene, owner
from tests.http.site import Site
from tests.ledger.actors import USING

[READY] = [endpoint for endpoint in HEALTH if endpoint.name == "ready"]


@contextmanager
def held(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Hold a statement, and tell how often it was sent."""
    gate, sent, real = threading.Event(), [], sql.run

    def run(statement: str, *rest: Any) -> Any:
        if statement == name:
            sent.append(statement)
            gate.wait(20)
        return real(statement, *rest)

    monkeypatch.setattr(sql, "run", run)
    try:
        yield sent
    finally:
        gate.set()


def test_no_number_of_questions_for_readiness_keeps_a_renewal_waiting(
    site: Site, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "QUEUE_MAX", 10)
    with held("find_housekeeping", monkeypatch) as sent:
        asked = [site.begin("GET", "health/ready") for _ in range(100)]
        renewal = {"owners": [owner(scene.active)]}
        answer = site.ask("POST", f"sessions/{scene.session}/renew", renewal, token=scene.token)
        assert answer.assert_ok()["renewals"][0]["status"] == "renewed"
        assert not any(one.is_answered() for one in asked)
    assert [one.answer().assert_ok() for one in asked] == [{"status": "ready"}] * 100
    assert len(sent) == 1


def test_readiness_with_a_parameter_is_refused_though_an_answer_is_kept(site: Site) -> None:
    record_turn(using=USING)
    site.ask("GET", "health/ready").assert_ok()
    site.ask("GET", "health/ready", query="x=1").assert_problem(400, "invalid_input")


@pytest.mark.parametrize("path", ["health/live", "openapi.json"])
def test_life_and_the_description_are_told_though_every_thread_is_held(
    path: str, site: Site, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, real = threading.Event(), Call.read

    def read(self: Call, body: bytes) -> Any:
        # The loop is where nothing may be held.
        if threading.current_thread().name != "site":
            gate.wait(20)
        return real(self, body)

    monkeypatch.setattr(Call, "read", read)
    renewal = {"owners": [owner(scene.active)]}
    renewals = [
        site.begin("POST", f"sessions/{scene.session}/renew", renewal, token=scene.token)
        for _ in range(2 * lanes.THREADS[Lane.RENEW])
    ]
    began = time.monotonic()
    site.ask("GET", path).assert_ok()
    assert time.monotonic() - began < 1
    assert not any(one.is_answered() for one in renewals)
    gate.set()
    for one in renewals:
        one.answer().assert_ok()


# Kept replies


def test_a_reply_is_made_once_for_all_who_ask_and_anew_when_its_time_is_over() -> None:
    made: list[Reply] = []

    async def make() -> Reply:
        await asyncio.sleep(0)
        made.append(Reply(body=b"%d" % len(made)))
        return made[-1]

    async def test() -> None:
        kept = Kept()
        replies = await asyncio.gather(*[kept.reply(READY, make) for _ in range(10)])
        assert (set(replies), len(made)) == ({made[0]}, 1)
        while await kept.reply(READY, make) == made[0]:
            await asyncio.sleep(0.01)
        assert len(made) == 2

    asyncio.run(asyncio.wait_for(test(), 20))


def test_a_failure_is_not_kept_and_a_caller_that_goes_away_takes_nothing_with_it() -> None:
    async def fail() -> Reply:
        raise ZeroDivisionError

    async def test() -> None:
        kept, gate = Kept(), asyncio.Event()

        async def make() -> Reply:
            await gate.wait()
            return Reply(body=b"1")

        with pytest.raises(ZeroDivisionError):
            await kept.reply(READY, fail)
        gone, waits = (asyncio.ensure_future(kept.reply(READY, make)) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        gate.set()
        assert (await waits).body == b"1"

    asyncio.run(asyncio.wait_for(test(), 20))
