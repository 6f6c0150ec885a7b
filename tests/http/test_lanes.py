"""Lanes: a full one says so, none stands behind another, and what has begun ends."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ledgence.http import lanes
from ledgence.http.endpoint import Lane
from ledgence.http.lanes import Lanes
from ledgence_worker.errors import Busy

PATIENCE_SECONDS = 20.0


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Lanes, threading.Event]]:
    """Lanes, and a gate that holds the functions which wait for it."""
    made, gate = Lanes(), threading.Event()
    try:
        yield made, gate
    finally:
        gate.set()
        made.close()


def run(test) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE_SECONDS))


def test_a_function_runs_on_a_thread_of_its_lane() -> None:
    async def test() -> None:
        async with opened() as (made, _):
            names = [await made.run(lane, lambda: threading.current_thread().name) for lane in Lane]
        assert [name.rpartition("_")[0] for name in names] == [f"ledgence-{lane}" for lane in Lane]

    run(test)


def test_a_full_lane_is_busy_and_the_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "QUEUE_MAX", 6)

    async def test() -> None:
        async with opened() as (made, gate):
            held = [asyncio.ensure_future(made.run(Lane.WORK, gate.wait)) for _ in range(6)]
            await asyncio.sleep(0)
            with pytest.raises(Busy, match="nothing was done"):
                await made.run(Lane.WORK, gate.wait)
            assert await made.run(Lane.RENEW, lambda: "renewed") == "renewed"
            gate.set()
            await asyncio.gather(*held)
            assert await made.run(Lane.WORK, lambda: "worked") == "worked"

    run(test)


def test_a_function_ends_though_its_caller_is_cancelled_and_counts_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "QUEUE_MAX", 1)
    ended = threading.Event()

    async def test() -> None:
        async with opened() as (made, gate):

            def function() -> None:
                gate.wait()
                ended.set()

            caller = asyncio.ensure_future(made.run(Lane.TASKS, function))
            await asyncio.sleep(0)
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
            with pytest.raises(Busy):
                await made.run(Lane.TASKS, function)
            gate.set()
            await asyncio.to_thread(ended.wait)
            while made._counts[Lane.TASKS]:
                await asyncio.sleep(0)
            assert await made.run(Lane.TASKS, lambda: 1) == 1

    run(test)


def test_what_needs_no_thread_is_answered_at_once_even_by_closed_lanes() -> None:
    async def test() -> None:
        async with opened() as (made, _):
            made.close()
            assert await made.run(None, threading.current_thread) is threading.current_thread()

    run(test)


def test_what_a_function_raises_reaches_its_caller() -> None:
    async def test() -> None:
        async with opened() as (made, _):
            with pytest.raises(ZeroDivisionError):
                await made.run(Lane.WORK, lambda: 1 / 0)

    run(test)


def test_what_has_begun_ends_before_the_lanes_do_though_its_caller_is_gone() -> None:
    ended: list[bool] = []

    async def test() -> None:
        async with opened() as (made, gate):
            caller = asyncio.ensure_future(made.run(Lane.WORK, lambda: ended.append(gate.wait())))
            await asyncio.sleep(0)
            caller.cancel()
            made.close()
            # Not for ever.
            await made.end(0.01)
            assert ended == []
            gate.set()
            await made.end(PATIENCE_SECONDS)
            assert ended == [True]

    run(test)


def test_closed_lanes_are_busy() -> None:
    async def test() -> None:
        async with opened() as (made, _):
            made.close()
            with pytest.raises(Busy, match="stops"):
                await made.run(Lane.WORK, lambda: 1)

    run(test)
