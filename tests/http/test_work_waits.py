"""Waits for work: hints wake those they concern, a turn finds the rest and records what is over, nothing is left."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID, uuid4

import pytest

from ledgence import sql
from ledgence.http import work_waits
from ledgence.http.news import News
from ledgence.http.work_waits import WorkWaits
from ledgence_worker.errors import Busy, Unavailable
from ledgence_worker.protocol import Acquire
from tests.http.waits_ledger import PATIENCE_SECONDS, SERVICE, Ledger, run_here


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    made = Ledger()
    monkeypatch.setattr(sql, "run", made.run)
    monkeypatch.setattr(work_waits, "TURN_SECONDS", (0.1, 0.1))
    # Every wait of these tests is a long one, unless it says otherwise.
    monkeypatch.setattr(work_waits, "SHORT_SECONDS", -1.0)
    return made


def run(test: Callable[[WorkWaits], Coroutine[Any, Any, None]]) -> None:
    async def inner() -> None:
        made = WorkWaits(SERVICE, run_here)
        await test(made)
        await settled(made)

    asyncio.run(asyncio.wait_for(inner(), PATIENCE_SECONDS))


async def settled(made: WorkWaits) -> None:
    """Check that nobody waits and nothing runs on."""
    while made._work:
        await asyncio.sleep(0.001)
    made.stop()
    while len(asyncio.all_tasks()) > 2:
        await asyncio.sleep(0.01)


def command(ledger: Ledger, *, queue: int = 1, session: UUID | None = None, sequence: int = 1) -> Acquire:
    session = session or uuid4()
    ledger.queues[session] = queue
    return Acquire(session_id=session, channel=0, sequence=sequence, capacity=1, wait_seconds=20)


def park(made: WorkWaits, wanted: Acquire, seconds: float = 60.0, heard: int | None = None) -> asyncio.Task[News]:
    """Begin to wait."""
    count = made.begin(wanted) if heard is None else heard
    return asyncio.ensure_future(made.wait(wanted, count, time.monotonic() + seconds))


async def parked(made: WorkWaits, count: int) -> None:
    while len(made._work) < count:
        await asyncio.sleep(0.001)


# Hints


def test_a_hint_wakes_only_those_whose_queue_it_names(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        first, second = command(ledger, queue=1), command(ledger, queue=2)
        one, two = park(made, first), park(made, second)
        await parked(made, 2)
        made.hear({"1"})
        assert await one is News.CHANGED
        await asyncio.sleep(0)
        assert not two.done()
        two.cancel()

    run(test)


def test_a_hint_for_everything_or_for_a_new_queue_wakes_all(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        for words in ({"*"}, {"77"}):
            all_of_them = [park(made, command(ledger, queue=n)) for n in range(1, 4)]
            await parked(made, 3)
            made.hear(words)
            assert await asyncio.gather(*all_of_them) == [News.CHANGED] * 3

    run(test)


def test_a_hint_of_a_cancellation_or_of_nonsense_wakes_nobody(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        one = park(made, command(ledger))
        await parked(made, 1)
        made.hear({"cancel"})
        made.hear({"x", "-1", "9" * 100, "²"})
        await asyncio.sleep(0.01)
        assert not one.done()
        one.cancel()

    run(test)


def test_a_hint_that_comes_while_a_command_looks_is_not_missed(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        wanted = command(ledger)
        park(made, wanted).cancel()
        heard = made.begin(wanted)
        made._know(wanted.session_id).served.refresh(wanted.session_id)
        made.hear({"1"})
        await asyncio.sleep(0.01)
        # Another channel of the session begins and takes nothing away.
        made.begin(wanted)
        assert await park(made, wanted, heard=heard) is News.CHANGED

    run(test)


def test_hints_from_other_threads_arrive(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        one = park(made, command(ledger))
        await parked(made, 1)
        threads = [threading.Thread(target=made.hear, args=({"1"},)) for _ in range(8)]
        for thread in threads:
            thread.start()
        assert await one is News.CHANGED
        for thread in threads:
            thread.join()

    run(test)


def test_a_hint_after_the_loop_has_ended_harms_nobody(ledger: Ledger) -> None:
    kept: list[WorkWaits] = []

    async def test(made: WorkWaits) -> None:
        kept.append(made)

    run(test)
    assert kept[0].hear({"1"}) is False


# Turns


def test_a_turn_finds_due_work_of_which_no_hint_told(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        lucky, other = command(ledger), command(ledger)
        ledger.due.add(lucky.session_id)
        one, two = park(made, lucky), park(made, other)
        assert await one is News.CHANGED
        assert not two.done()
        two.cancel()

    run(test)


def test_waits_that_are_over_are_recorded_in_one_statement_and_the_refused_told_one_by_one(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        commands = [command(ledger) for _ in range(5)]
        ledger.refused.add(commands[0].session_id)
        tasks = [park(made, one, 0.01) for one in commands]
        assert await asyncio.gather(*tasks) == [News.OVER, *[News.RECORDED] * 4]
        assert [sorted(found) for found in ledger.recorded] == [sorted(one.session_id for one in commands[1:])]

    run(test)


def test_what_has_work_to_take_is_not_answered_with_nothing(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        lucky = command(ledger)
        ledger.due.add(lucky.session_id)
        assert await park(made, lucky, 0.0) in (News.CHANGED, News.OVER)
        assert ledger.recorded == []

    run(test)


def test_a_hundred_waits_cost_what_one_does(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        tasks = [park(made, command(ledger)) for _ in range(100)]
        await parked(made, 100)
        ledger.sent.clear()
        await asyncio.sleep(0.3)
        assert 1 <= len(ledger.sent) <= 4
        assert set(ledger.sent) == {"find_sessions_to_wake"}
        for task in tasks:
            task.cancel()

    run(test)


def test_turns_end_with_the_last_wait_and_begin_again(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        for _ in range(2):
            one = park(made, command(ledger))
            await parked(made, 1)
            one.cancel()
            while made._turns is not None:
                await asyncio.sleep(0.01)
            ledger.sent.clear()
            await asyncio.sleep(0.2)
            assert ledger.sent == []

    run(test)


def test_a_short_wait_ends_in_time(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_waits, "SHORT_SECONDS", 3.0)
    monkeypatch.setattr(work_waits, "TURN_SECONDS", (9.0, 9.0))

    async def test(made: WorkWaits) -> None:
        began = time.monotonic()
        assert await park(made, command(ledger), 0.1) is News.OVER
        assert 0.09 < time.monotonic() - began < 2
        assert ledger.recorded == []

    run(test)


def test_a_turn_that_fails_lets_everybody_look_and_the_next_one_comes(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        for failure in (Unavailable("no answer"), ZeroDivisionError()):
            one = park(made, command(ledger))
            await parked(made, 1)
            ledger.fails = failure
            assert await one is News.CHANGED
            ledger.fails = None
        lucky = command(ledger)
        ledger.due.add(lucky.session_id)
        assert await park(made, lucky) is News.CHANGED

    run(test)


def test_a_turn_that_is_busy_tells_nobody(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        one = park(made, command(ledger))
        await parked(made, 1)
        ledger.fails = Busy("full")
        await asyncio.sleep(0.2)
        assert not one.done()
        assert len(ledger.sent) > 1
        one.cancel()

    run(test)


def test_a_session_that_has_not_asked_for_long_is_forgotten(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_waits, "FORGET_SECONDS", 0.1)

    async def test(made: WorkWaits) -> None:
        old, new = command(ledger), command(ledger)
        heard = made.begin(old)
        await asyncio.sleep(0.15)
        assert await park(made, new, 0.0) is News.RECORDED
        assert old.session_id not in made._sessions
        # It may still have been looking: then it is known anew.
        one = park(made, old, heard=heard)
        await parked(made, 1)
        one.cancel()

    run(test)


# What need not look


async def let_pass(made: WorkWaits, wanted: Acquire) -> None:
    """Wait until nothing was recorded as the command's answer."""
    assert await park(made, wanted, 0.0) is News.RECORDED


def test_the_next_command_need_not_look_again(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        wanted = command(ledger, sequence=4)
        assert not made.may_skip(wanted)
        await let_pass(made, wanted)
        assert made.may_skip(command(ledger, session=wanted.session_id, sequence=5))

    run(test)


@pytest.mark.parametrize("sequence", [3, 4, 6])
def test_a_repeated_or_wrong_sequence_looks(ledger: Ledger, sequence: int) -> None:
    async def test(made: WorkWaits) -> None:
        wanted = command(ledger, sequence=4)
        await let_pass(made, wanted)
        assert not made.may_skip(command(ledger, session=wanted.session_id, sequence=sequence))

    run(test)


def test_a_command_looks_after_a_hint(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        wanted = command(ledger)
        await let_pass(made, wanted)
        made.hear({"1"})
        await asyncio.sleep(0.01)
        following = command(ledger, session=wanted.session_id, sequence=2)
        assert not made.may_skip(following)
        # However often its session begins to look meanwhile.
        made.begin(wanted)
        assert not made.may_skip(following)

    run(test)


def test_a_command_looks_after_a_hint_that_came_with_its_empty_answer(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        wanted = command(ledger)
        record = ledger.record_empty_answers

        def record_and_hint(**parameters: Any) -> list[Any]:
            found = record(**parameters)
            made.hear({"1"})
            return found

        ledger.record_empty_answers = record_and_hint  # type: ignore[method-assign, assignment]
        assert await park(made, wanted, 0.0) in (News.RECORDED, News.CHANGED)
        await asyncio.sleep(0.01)
        assert not made.may_skip(command(ledger, session=wanted.session_id, sequence=2))

    run(test)


def test_another_channel_looks(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        wanted = command(ledger)
        await let_pass(made, wanted)
        other = Acquire(session_id=wanted.session_id, channel=1, sequence=2, capacity=1)
        assert not made.may_skip(other)

    run(test)


# Ends of waits


def test_stop_answers_every_wait_at_once_and_lets_nobody_wait_any_more(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_waits, "TURN_SECONDS", (60.0, 60.0))

    async def test(made: WorkWaits) -> None:
        refused = command(ledger)
        ledger.refused.add(refused.session_id)
        tasks = [park(made, command(ledger)) for _ in range(50)] + [park(made, refused)]
        await parked(made, 51)
        began = time.monotonic()
        made.stop()
        assert await asyncio.gather(*tasks) == [News.RECORDED] * 50 + [News.OVER]
        assert time.monotonic() - began < 2
        assert len(ledger.recorded) == 1
        assert await park(made, command(ledger)) is News.OVER

    run(test)


def test_a_wait_that_begins_during_a_turn_is_answered_when_the_process_stops_before_its_end(ledger: Ledger) -> None:
    inside, gate, find = threading.Event(), threading.Event(), ledger.find_sessions_to_wake

    def find_slowly(sessions: list[UUID]) -> list[Any]:
        inside.set()
        gate.wait(PATIENCE_SECONDS)
        return find(sessions)

    ledger.find_sessions_to_wake = find_slowly  # type: ignore[method-assign]

    async def test(made: WorkWaits) -> None:
        first = park(made, command(ledger))
        await parked(made, 1)
        await asyncio.to_thread(inside.wait)
        second = park(made, command(ledger))
        await parked(made, 2)
        made.stop()
        began = time.monotonic()
        gate.set()
        assert await first is News.OVER
        assert await second is News.RECORDED
        assert time.monotonic() - began < 2

    run(test)


def test_stop_answers_every_wait_though_the_database_does_not(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        for failure in (Busy("full"), Unavailable("no answer")):
            tasks = [park(made, command(ledger)) for _ in range(3)]
            await parked(made, 3)
            ledger.fails = failure
            made.stop()
            assert set(await asyncio.gather(*tasks)) <= {News.OVER, News.CHANGED}
            made._stopping.clear()
            ledger.fails = None

    run(test)


def test_stop_answers_every_wait_though_no_thread_is_left(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        async def refuse(function: Callable[[], Any]) -> Any:
            raise Busy("closed")

        tasks = [park(made, command(ledger)) for _ in range(3)]
        await parked(made, 3)
        made._run = refuse
        made.stop()
        assert set(await asyncio.gather(*tasks)) == {News.OVER}

    run(test)


def test_a_cancelled_wait_leaves_nothing(ledger: Ledger) -> None:
    async def test(made: WorkWaits) -> None:
        tasks = [park(made, command(ledger)) for _ in range(10)]
        await parked(made, 10)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not made._work
        # Neither a hint nor a turn stumbles over it.
        made.hear({"*"})
        while made._turns is not None:
            await asyncio.sleep(0.001)

    run(test)
