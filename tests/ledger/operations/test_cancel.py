"""Cancellation: a queued task ends at once, an active one ends cancelled whatever its program does."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import transaction

from ledgence import sql
from ledgence.models import Lease, Task
from ledgence.operations import cancel as cancel_module
from ledgence.operations.cancel import ROUNDS, CancelStatus, cancel
from ledgence.operations.expire import expire
from ledgence.operations.operate import requeue
from ledgence_worker.errors import Busy
from ledgence_worker.protocol import Outcome, SettleStatus
from tests.ledger.actors import (
    USING,
    Worker,
    assert_audit_clean,
    attempts_of,
    execute,
    expire_leases,
    make_due,
    operator,
    outcomes_of,
    state_of,
    submit_task,
    submit_tasks,
)
from tests.ledger.frozen import FrozenClock
from tests.ledger.rivals import Rival

CANCELLED, REQUESTED = CancelStatus.CANCELLED, CancelStatus.REQUESTED
TERMINAL, NOT_FOUND = CancelStatus.TERMINAL, CancelStatus.NOT_FOUND


def cancel_one(task):
    return cancel([task], using=USING)[task]


def test_a_queued_task_ends_at_once_with_an_attempt_that_was_never_leased(db):
    task = submit_task()
    assert cancel_one(task) == CANCELLED
    assert state_of(task) == "cancelled"
    [attempt] = attempts_of(task)
    assert (attempt.number, attempt.outcome, attempt.consequence, attempt.cause) == (
        1,
        "cancelled",
        "cancelled",
        "submitted",
    )
    assert (attempt.token, attempt.session_id, attempt.claimed_at) == (None, None, None)
    assert Task.objects.get().cancel_requested_at is not None
    assert_audit_clean()


def test_a_cancelled_generation_is_never_used_again(worker: Worker):
    task = submit_task()
    cancel_one(task)
    requeue({task: 1}, operator(), using=USING)
    assert worker.acquire_one().number == 2
    assert_audit_clean()


def test_a_task_waiting_for_its_retry_is_queued(worker: Worker):
    task = submit_task()
    worker.settle(worker.acquire_one(), Outcome.CRASHED)
    assert cancel_one(task) == CANCELLED
    assert outcomes_of(task) == ["crashed", "cancelled"]
    assert [attempt.cause for attempt in attempts_of(task)] == ["submitted", "crashed"]
    assert_audit_clean()


def test_a_task_for_later_is_cancelled_like_any_queued_one(clock: FrozenClock):
    task = submit_task(run_after=clock.now + timedelta(days=1))
    assert cancel_one(task) == CANCELLED
    assert_audit_clean()


@pytest.mark.parametrize(
    "outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CRASHED, Outcome.INTERRUPTED, Outcome.CANCELLED]
)
def test_once_requested_the_task_ends_cancelled_whatever_the_attempt_says(worker: Worker, outcome):
    task = submit_task()
    assignment = worker.acquire_one()
    assert cancel_one(task) == REQUESTED
    assert state_of(task) == "active"
    answer = worker.settle(assignment, outcome, result='"kept"')
    assert (answer.status, answer.consequence) == (SettleStatus.ACCEPTED, "cancelled")
    assert state_of(task) == "cancelled"
    [attempt] = attempts_of(task)
    assert attempt.outcome == outcome
    assert attempt.result == ("kept" if outcome is Outcome.SUCCEEDED else None)
    assert Task.objects.get().result is None
    assert_audit_clean()


def test_a_success_that_came_before_stands(worker: Worker):
    task = submit_task()
    worker.settle(worker.acquire_one())
    assert cancel_one(task) == TERMINAL
    assert state_of(task) == "succeeded"
    assert Task.objects.get().cancel_requested_at is None


def test_a_requested_task_whose_lease_expires_ends_cancelled(worker: Worker):
    task = submit_task()
    worker.acquire_one()
    cancel_one(task)
    expire_leases()
    assert expire(using=USING) == 1
    assert state_of(task) == "cancelled"
    assert outcomes_of(task) == ["lost"]
    assert_audit_clean()


def test_a_lease_that_is_over_already_can_be_asked_too(worker: Worker):
    task = submit_task()
    worker.acquire_one()
    expire_leases()
    assert cancel_one(task) == REQUESTED
    expire(using=USING)
    assert state_of(task) == "cancelled"


def test_a_request_leaves_the_clean_up_allowance_and_no_more(clock: FrozenClock, worker: Worker):
    task = submit_task()
    worker.acquire_one()
    clock.advance(seconds=10)
    cancel_one(task)
    lease = Lease.objects.get()
    assert lease.expires_at == lease.bound_at == clock.now + timedelta(seconds=30)
    assert lease.cancel_requested_at == Task.objects.get().cancel_requested_at == clock.now


def test_a_repeated_request_changes_nothing(clock: FrozenClock, worker: Worker):
    task = submit_task()
    worker.acquire_one()
    cancel_one(task)
    before = Lease.objects.values().get()
    clock.advance(seconds=5)
    assert cancel_one(task) == REQUESTED
    assert Lease.objects.values().get() == before
    assert Task.objects.get().cancel_requested_at == before["cancel_requested_at"]


def test_a_request_never_lengthens_what_is_left(clock: FrozenClock, worker: Worker):
    task = submit_task()
    worker.acquire_one()
    clock.advance(seconds=50)
    before = Lease.objects.get()
    cancel_one(task)
    after = Lease.objects.get()
    assert after.expires_at == before.expires_at
    assert after.bound_at == clock.now + timedelta(seconds=30)


def test_a_task_without_a_time_out_gets_a_bound_too(clock: FrozenClock, worker: Worker):
    task = submit_task(timeout=None)
    worker.acquire_one()
    cancel_one(task)
    assert Lease.objects.get().bound_at == clock.now + timedelta(seconds=30)


def test_a_requeued_task_is_not_asked_any_more(worker: Worker):
    task = submit_task()
    assignment = worker.acquire_one()
    cancel_one(task)
    worker.settle(assignment)
    assert requeue({task: 1}, operator(), using=USING) == {str(task): "requeued"}
    assert Task.objects.get().cancel_requested_at is None
    assert worker.settle(worker.acquire_one()).consequence == "succeeded"
    assert outcomes_of(task) == ["succeeded", "succeeded"]
    assert_audit_clean()


def test_every_task_is_answered_once_however_often_it_is_named(worker: Worker):
    active, over, queued = submit_tasks(3)
    assignments = worker.acquire(2)
    worker.settle(assignments[1])
    unknown = uuid4()
    answers = cancel([queued, unknown, over, active, queued], using=USING)
    assert answers == {active: REQUESTED, over: TERMINAL, queued: CANCELLED, unknown: NOT_FOUND}
    assert cancel([queued, unknown, over, active], using=USING) == answers | {queued: TERMINAL}
    assert cancel([], using=USING) == {}
    assert_audit_clean()


def test_a_cancel_in_a_callers_transaction_stands_and_falls_with_it(db):
    task = submit_task()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        cancel_one(task)
        raise ZeroDivisionError
    assert state_of(task) == "queued"


@pytest.mark.django_db(transaction=True)
def test_a_task_that_is_claimed_meanwhile_is_asked():
    worker = Worker()
    task = submit_task()
    with Rival() as rival:
        with transaction.atomic():
            worker.acquire_one()
            cancelling = rival.begin(lambda: cancel_one(task))
            rival.wait_until_blocked(cancelling)
        assert cancelling.result(20) == REQUESTED
    assert_audit_clean()


@pytest.mark.django_db(transaction=True)
def test_a_task_that_is_retried_meanwhile_is_found_in_another_round():
    worker = Worker()
    task = submit_task()
    assignment = worker.acquire_one()
    with Rival() as rival:
        with transaction.atomic():
            worker.settle(assignment, Outcome.CRASHED)
            cancelling = rival.begin(lambda: cancel_one(task))
            rival.wait_until_blocked(cancelling)
        assert cancelling.result(20) == CANCELLED
    assert outcomes_of(task) == ["crashed", "cancelled"]
    assert_audit_clean()


def test_a_task_that_keeps_changing_hands_is_busy_and_nothing_is_written(worker: Worker, monkeypatch):
    """Between the look at intents and the look at leases it moves, each time."""
    task, other = submit_tasks(2)
    asked: list[str] = []

    def run(name, using, parameters=None):
        rows = sql_run(name, using, parameters)
        if name in ("lock_intents", "lock_leases_of_tasks"):
            asked.append(name)
            return [row for row in rows if row[0] != task]
        return rows

    sql_run = sql.run
    monkeypatch.setattr(sql, "run", run)
    with pytest.raises(Busy, match="2 tasks kept changing hands"):
        cancel([task, other], using=USING)
    assert asked == ["lock_intents", "lock_leases_of_tasks"] * ROUNDS
    monkeypatch.undo()
    assert state_of(task) == state_of(other) == "queued"
    assert cancel_module.cancel([task, other], using=USING) == {task: CANCELLED, other: CANCELLED}


@pytest.mark.django_db(transaction=True)
def test_a_row_that_stays_held_is_busy_and_nothing_is_written(settings):
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 0.05}
    free, held = submit_tasks(2)
    with Rival() as rival, rival.transaction():
        rival.execute("select 1 from ledgence_deliveryintent where task_id = %s for update", [held])
        with pytest.raises(Busy, match="cancel"):
            cancel([free, held], using=USING)
        with transaction.atomic():
            with pytest.raises(Busy):
                cancel([free, held], using=USING)
            # The caller's transaction and its own lock time-out are as they were.
            assert execute("show lock_timeout") == [("0",)]
            assert state_of(free) == "queued"
    assert cancel([free, held], using=USING) == {free: CANCELLED, held: CANCELLED}


def test_a_cancelled_retry_does_not_come_back(worker: Worker):
    task = submit_task()
    assignment = worker.acquire_one()
    cancel_one(task)
    worker.settle(assignment, Outcome.CRASHED)
    make_due()
    assert worker.acquire(1) == []
    assert state_of(task) == "cancelled"
