"""The context that programs see."""

import time
from uuid import uuid4

from ledgence_worker import Context, Stopped


def test_the_fencing_token_names_task_and_attempt() -> None:
    task = uuid4()
    assert Context(task_id=task, number=3).fencing_token == (task, 3)


def test_the_remaining_time_never_goes_below_zero() -> None:
    task = uuid4()
    assert Context(task_id=task, number=1).remaining() is None
    assert Context(task_id=task, number=1, deadline=time.monotonic() - 5.0).remaining() == 0.0
    remaining = Context(task_id=task, number=1, deadline=time.monotonic() + 50.0).remaining()
    assert remaining is not None
    assert 49.0 < remaining <= 50.0


def test_a_context_of_a_test_is_not_cancelled() -> None:
    assert not Context(task_id=uuid4(), number=1).is_cancelled()


def test_a_stop_is_not_swallowed_as_an_ordinary_exception() -> None:
    assert not issubclass(Stopped, Exception)
