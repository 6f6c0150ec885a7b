"""What follows an attempt: the budget of charged attempts, what is retried, and after how long."""

from datetime import timedelta

import pytest

from ledgence.models import DeliveryIntent
from ledgence_worker.programs import Backoff
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import (
    Worker,
    assert_audit_clean,
    attempts_of,
    execute,
    make_due,
    outcomes_of,
    raised,
    state_of,
    submit_task,
)
from tests.ledger.frozen import FrozenClock


class DomainError(Exception):
    pass


class NarrowError(DomainError):
    pass


def delay(clock: FrozenClock) -> float:
    wait: timedelta = DeliveryIntent.objects.get().available_at - clock.now
    return wait.total_seconds()


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.TIMED_OUT])
@pytest.mark.parametrize("max_attempts", [1, 2, 3])
def test_a_task_ends_after_so_many_charged_attempts(worker: Worker, outcome, max_attempts):
    task = submit_task(max_attempts=max_attempts)
    for number in range(1, max_attempts + 1):
        make_due()
        answer = worker.settle(worker.acquire_one(), outcome)
        assert answer.consequence == ("retry" if number < max_attempts else "failed")
    assert state_of(task) == "failed"
    assert outcomes_of(task) == [outcome] * max_attempts
    assert_audit_clean()


def test_work_given_back_is_ready_at_once_and_never_charged(clock: FrozenClock, worker: Worker):
    task = submit_task(max_attempts=1)
    for number in range(1, 6):
        assignment = worker.acquire_one()
        assert assignment.number == number
        [answer] = worker.release(assignment)
        assert answer.consequence == "retry"
        intent = DeliveryIntent.objects.get()
        assert (intent.charged, intent.available_at, intent.cause) == (0, clock.now, "interrupted")
    assert worker.settle(worker.acquire_one(), Outcome.CRASHED).consequence == "failed"
    assert outcomes_of(task) == ["interrupted"] * 5 + ["crashed"]
    assert_audit_clean()


def test_a_release_is_fenced_and_replayed_like_a_settlement(worker: Worker):
    task = submit_task()
    assignment = worker.acquire_one()
    [first] = worker.release(assignment)
    second = worker.acquire_one()
    [again] = worker.release(assignment)
    assert again == first
    assert worker.settle(assignment).status == "conflict"
    assert state_of(task) == "active"
    assert worker.settle(second).status == "accepted"


@pytest.mark.parametrize(
    ("retry_on", "consequence"),
    [
        ((), "failed"),
        (("failed",), "retry"),
        (("crashed",), "failed"),
        ((NarrowError,), "retry"),
        ((DomainError,), "retry"),
        ((Exception,), "retry"),
        (("tests.other.Error",), "failed"),
        ((ValueError,), "failed"),
    ],
)
def test_an_exception_is_final_unless_its_class_or_a_base_is_listed(worker: Worker, retry_on, consequence):
    submit_task(retry_on=retry_on)
    classes = [f"{kind.__module__}.{kind.__qualname__}" for kind in NarrowError.__mro__[:-1]]
    error = raised(*classes)
    assert worker.settle(worker.acquire_one(), Outcome.FAILED, error=error).consequence == consequence


def test_a_listed_class_retries_exceptions_only(worker: Worker):
    submit_task(retry_on=(DomainError,))
    assert worker.settle(worker.acquire_one(), Outcome.CRASHED, error=raised("a.B")).consequence == "failed"


@pytest.mark.parametrize("listed", ["crashed", "timed_out", "lost", "failed"])
@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.FAILED])
def test_only_listed_outcomes_are_retried(worker: Worker, listed, outcome):
    submit_task(retry_on=(listed,))
    answer = worker.settle(worker.acquire_one(), outcome)
    assert answer.consequence == ("retry" if listed == outcome else "failed")


def test_the_delay_grows_by_the_factor_up_to_the_maximum(clock: FrozenClock, worker: Worker):
    backoff = Backoff(initial_seconds=1, factor=10, maximum_seconds=250, jitter=0)
    submit_task(max_attempts=10, backoff=backoff)
    delays = []
    for _ in range(5):
        worker.settle(worker.acquire_one(), Outcome.CRASHED)
        delays.append(delay(clock))
        clock.set(DeliveryIntent.objects.get().available_at)
    assert delays == [1, 10, 100, 250, 250]


@pytest.mark.parametrize("charged", [0, 1, 99, 100, 101, 999, 29_999, 32_765])
@pytest.mark.parametrize("factor", [1, 1.0001, 2, 10])
def test_the_delay_is_finite_and_capped_at_any_attempt(clock: FrozenClock, worker: Worker, charged, factor):
    longest = 31_536_000.0
    submit_task(max_attempts=32_767, backoff=Backoff(initial_seconds=7, factor=factor, maximum_seconds=longest))
    assignment = worker.acquire_one()
    execute("update ledgence_lease set charged = %s", [charged])
    assert worker.settle(assignment, Outcome.CRASHED).consequence == "retry"
    plain = min(longest, 7 * factor ** min(charged, 100))
    assert plain * 0.9 - 0.001 <= delay(clock) <= min(longest, plain * 1.1) + 0.001
    assert DeliveryIntent.objects.get().charged == charged + 1


def test_the_last_budget_that_can_be_given_ends(worker: Worker):
    submit_task(max_attempts=32_767)
    assignment = worker.acquire_one()
    execute("update ledgence_lease set charged = 32766")
    assert worker.settle(assignment, Outcome.CRASHED).consequence == "failed"


def test_jitter_spreads_within_its_range(clock: FrozenClock, worker: Worker):
    backoff = Backoff(initial_seconds=100, factor=1, maximum_seconds=150, jitter=0.5)
    submit_task(max_attempts=100, backoff=backoff)
    delays = []
    for _ in range(30):
        worker.settle(worker.acquire_one(), Outcome.CRASHED)
        delays.append(delay(clock))
        clock.advance(seconds=200)
    assert all(50 <= seconds <= 150 for seconds in delays)
    assert len(set(delays)) > 20 and max(delays) - min(delays) > 20


def test_delays_at_the_maximum_are_spread_too(clock: FrozenClock, worker: Worker):
    submit_task(max_attempts=100, backoff=Backoff(initial_seconds=100, factor=10, maximum_seconds=100, jitter=0.5))
    delays = []
    for _ in range(20):
        worker.settle(worker.acquire_one(), Outcome.CRASHED)
        delays.append(delay(clock))
        clock.advance(seconds=100)
    assert all(50 <= seconds <= 100 for seconds in delays)
    # About half of the draws are cut at the maximum; that all of them are happens once in a million runs.
    assert len(set(delays)) > 1


def test_full_jitter_may_retry_at_once_and_never_in_the_past(clock: FrozenClock, worker: Worker):
    submit_task(max_attempts=100, backoff=Backoff(initial_seconds=10, factor=1, maximum_seconds=10, jitter=1))
    for _ in range(10):
        worker.settle(worker.acquire_one(), Outcome.CRASHED)
        assert 0 <= delay(clock) <= 10
        clock.advance(seconds=10)


def test_every_attempt_has_its_cause_and_tells_the_next_one(worker: Worker):
    task = submit_task(max_attempts=9, retry_on=("failed", "crashed"))
    for outcome in (Outcome.CRASHED, Outcome.FAILED, Outcome.INTERRUPTED):
        make_due()
        worker.settle(worker.acquire_one(), outcome)
    make_due()
    last = worker.acquire_one()
    assert [(e.number, e.cause, e.outcome) for e in last.earlier] == [
        (1, "submitted", "crashed"),
        (2, "crashed", "failed"),
        (3, "failed", "interrupted"),
    ]
    assert last.cause == "interrupted"
    assert [attempt.cause for attempt in attempts_of(task)] == ["submitted", "crashed", "failed", "interrupted"]
