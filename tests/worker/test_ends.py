"""The queue of ends: batches by lingering a little, and never keeps a last end waiting."""

import threading
import time

import pytest

from ledgence_worker.authority import Authority
from ledgence_worker.clock import SystemClock
from ledgence_worker.ends import BATCH_CHARACTERS, End, EndQueue
from ledgence_worker.protocol import Outcome, Settlement
from tests.worker.fakes import FakeClock, make_assignment

LONG = 30.0


def make_end(result: str | None = None) -> End:
    assignment = make_assignment()
    key = (assignment.task_id, assignment.number)
    settlement = result and Settlement(
        task_id=assignment.task_id, number=1, token=assignment.token, outcome=Outcome.SUCCEEDED, result=result
    )
    return End(authority=Authority(assignment, key, 0.0, None), settlement=settlement or None)


@pytest.fixture
def ends():
    return [make_end() for _ in range(3)]


def test_everything_put_is_taken_together(ends):
    queue = EndQueue(0.0, SystemClock())
    queue.put(ends[:1], is_last=False)
    queue.put(ends[1:], is_last=False)
    assert queue.take() == ends


def test_last_end_ends_the_linger(ends):
    queue = EndQueue(LONG, SystemClock())
    queue.put(ends[:1], is_last=False)
    taken: list[list[End] | None] = []
    thread = threading.Thread(target=lambda: taken.append(queue.take()), daemon=True)
    thread.start()
    queue.put(ends[1:], is_last=True)
    thread.join(LONG / 2)
    assert taken == [ends]


def test_end_that_waited_long_enough_lingers_no_more(ends):
    clock = FakeClock()
    queue = EndQueue(LONG, clock)
    queue.put(ends[:1], is_last=False)
    clock.advance(LONG)
    started = time.monotonic()
    assert queue.take() == ends[:1]
    assert time.monotonic() - started < LONG / 2


def test_ends_kept_for_later_come_apart_from_the_others_when_due(ends):
    clock = FakeClock()
    queue = EndQueue(0.0, clock)
    queue.put_again(ends[:1], 1.0)
    queue.put(ends[1:], is_last=False)
    assert queue.take() == ends[1:]
    assert queue.take_again() == []
    clock.advance(1.0)
    assert queue.take() == []
    assert queue.take_again() == ends[:1]
    assert queue.take_again() == []


def test_wait_ends_when_a_kept_end_is_due(ends):
    queue = EndQueue(0.0, SystemClock())
    queue.put_again(ends, 0.01)
    assert queue.take() == []
    assert queue.take_again() == ends


def test_closed_queue_gives_what_it_has_and_then_none(ends):
    queue = EndQueue(LONG, SystemClock())
    queue.put(ends, is_last=False)
    queue.close()
    assert queue.take() == ends
    assert queue.take() is None


def large_ends() -> list[End]:
    """Return ends of which the first is above the limit alone, and the last three fit it exactly with a small one."""
    third = "x" * (BATCH_CHARACTERS // 3)
    rest = "x" * (BATCH_CHARACTERS - 3 * len(third))
    return [
        make_end("x" * (BATCH_CHARACTERS + 1)),
        *(make_end(text) for text in (third, third, third, rest)),
        make_end(),
    ]


def test_large_results_are_taken_by_and_by():
    ends = large_ends()
    queue = EndQueue(0.0, SystemClock())
    queue.put(ends, is_last=False)
    assert [queue.take(), queue.take()] == [ends[:1], ends[1:]]


def test_what_is_left_of_large_results_does_not_linger():
    ends = large_ends()
    queue = EndQueue(LONG, SystemClock())
    queue.put(ends, is_last=True)
    started = time.monotonic()
    assert [queue.take(), queue.take()] == [ends[:1], ends[1:]]
    assert time.monotonic() - started < LONG / 2


def test_a_closed_queue_gives_all_of_its_large_results():
    ends = large_ends()
    queue = EndQueue(0.0, SystemClock())
    queue.put(ends, is_last=False)
    queue.close()
    assert [queue.take(), queue.take(), queue.take()] == [ends[:1], ends[1:], None]


def test_large_results_kept_for_later_come_by_and_by_too():
    ends = large_ends()
    queue = EndQueue(0.0, SystemClock())
    queue.put_again(ends, 0.0)
    assert [queue.take(), queue.take_again()] == [[], ends[:1]]
    assert [queue.take(), queue.take_again(), queue.take_again()] == [[], ends[1:], []]
