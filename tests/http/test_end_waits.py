"""Waits for the ends of tasks: those of this process are told at once, others soon, and nothing is left behind."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID, uuid4

import pytest

from ledgence import sql
from ledgence.http import end_waits
from ledgence.http.end_waits import EndWaits
from ledgence.http.news import News
from ledgence_worker.errors import Unavailable
from tests.http.waits_ledger import PATIENCE_SECONDS, SERVICE, Ledger, run_here


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    made = Ledger()
    monkeypatch.setattr(sql, "run", made.run)
    monkeypatch.setattr(end_waits, "END_SECONDS", 0.02)
    return made


def run(test: Callable[[EndWaits], Coroutine[Any, Any, None]]) -> None:
    async def inner() -> None:
        made = EndWaits(SERVICE, run_here)
        await test(made)
        while made._looks is not None:
            await asyncio.sleep(0.001)
        assert not made._ends

    asyncio.run(asyncio.wait_for(inner(), PATIENCE_SECONDS))


async def wait(made: EndWaits, task: UUID, seconds: float = 60.0) -> News:
    made.begin(task)
    return await made.wait(task, None, time.monotonic() + seconds)


async def parked(made: EndWaits, count: int) -> None:
    while sum(map(len, made._ends.values())) < count:
        await asyncio.sleep(0.001)


def test_the_end_of_a_task_wakes_who_waits_for_it(ledger: Ledger) -> None:
    async def test(made: EndWaits) -> None:
        first, second = uuid4(), uuid4()
        waiting = [asyncio.ensure_future(wait(made, task)) for task in (first, first, second)]
        await parked(made, 3)
        ledger.ended.add(first)
        assert await asyncio.gather(*waiting[:2]) == [News.CHANGED] * 2
        made.ended([second, uuid4()])
        assert await waiting[2] is News.CHANGED

    run(test)


def test_a_wait_for_an_end_is_over_in_time(ledger: Ledger) -> None:
    async def test(made: EndWaits) -> None:
        assert await wait(made, uuid4(), 0.05) is News.OVER
        assert await wait(made, uuid4(), -1) is News.OVER

    run(test)


def test_looks_for_ends_that_fail_let_everybody_look(ledger: Ledger) -> None:
    async def test(made: EndWaits) -> None:
        for failure in (Unavailable("no answer"), ZeroDivisionError()):
            ledger.fails = failure
            assert await wait(made, uuid4()) is News.CHANGED

    run(test)


def test_stop_answers_every_wait_at_once_and_lets_nobody_wait_any_more(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(made: EndWaits) -> None:
        waiting = [asyncio.ensure_future(wait(made, uuid4())) for _ in range(10)]
        await parked(made, 10)
        made.stop()
        assert await asyncio.gather(*waiting) == [News.OVER] * 10
        assert await wait(made, uuid4()) is News.OVER

    run(test)


def test_a_cancelled_wait_leaves_nothing(ledger: Ledger) -> None:
    async def test(made: EndWaits) -> None:
        waiting = asyncio.ensure_future(wait(made, uuid4()))
        await parked(made, 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not made._ends
        made.ended([uuid4()])

    run(test)
