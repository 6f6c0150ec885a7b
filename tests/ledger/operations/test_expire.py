"""Expiry: leases whose time is over end their attempts as lost, page by page, whatever others hold."""

import pytest
from django.db import transaction

from ledgence import sql
from ledgence.models import DeliveryIntent, Lease, WorkerSession
from ledgence.operations.expire import expire, seconds_to_next_expiry
from ledgence_worker.protocol import SettleStatus
from tests.ledger.actors import (
    USING,
    Worker,
    assert_audit_clean,
    attempts_of,
    execute,
    expire_leases,
    make_due,
    outcomes_of,
    state_of,
    submit_task,
    submit_tasks,
)
from tests.ledger.frozen import MICROSECOND, FrozenClock
from tests.ledger.rivals import Rival


@pytest.mark.parametrize(("offset", "ended"), [(-1, 0), (0, 1), (1, 1)])
def test_expiry_is_exact_to_the_microsecond(clock: FrozenClock, worker: Worker, offset, ended):
    task = submit_task()
    worker.acquire_one()
    clock.set(Lease.objects.get().expires_at + offset * MICROSECOND)
    assert expire(using=USING) == ended
    assert state_of(task) == ("queued" if ended else "active")
    assert Lease.objects.expired().count() == 0
    assert_audit_clean()


def test_the_query_of_expired_leases_and_the_operation_agree(clock: FrozenClock, worker: Worker):
    submit_task()
    worker.acquire_one()
    for offset, count in ((-1, 0), (0, 1), (1, 1)):
        clock.set(Lease.objects.get().expires_at + offset * MICROSECOND)
        assert Lease.objects.expired().count() == count


def test_a_lost_attempt_is_retried_after_the_backoff(clock: FrozenClock, worker: Worker):
    task = submit_task()
    worker.acquire_one()
    clock.advance(seconds=60)
    assert expire(using=USING) == 1
    [attempt] = attempts_of(task)
    assert (attempt.outcome, attempt.consequence, attempt.finished_at) == ("lost", "retry", clock.now)
    assert attempt.settlement is None and attempt.lease_expires_at == clock.now
    intent = DeliveryIntent.objects.get()
    assert (intent.generation, intent.cause, intent.charged) == (2, "lost", 1)
    assert 4.5 <= (intent.available_at - clock.now).total_seconds() <= 5.5


def test_lost_attempts_exhaust_the_budget(worker: Worker):
    task = submit_task(max_attempts=3)
    for _ in range(3):
        make_due()
        worker.acquire_one()
        expire_leases()
        assert expire(using=USING) == 1
    assert state_of(task) == "failed"
    assert outcomes_of(task) == ["lost"] * 3
    assert [attempt.cause for attempt in attempts_of(task)] == ["submitted", "lost", "lost"]
    assert_audit_clean()


def test_a_lease_is_recovered_though_its_session_is_closed_and_over(worker: Worker):
    task = submit_task()
    worker.acquire_one()
    execute("update ledgence_workersession set closed_at = clock_timestamp(), expires_at = clock_timestamp()")
    expire_leases()
    assert expire(using=USING) == 1
    assert state_of(task) == "queued" and WorkerSession.objects.count() == 1


def test_pages_go_on_until_none_is_left(worker: Worker):
    tasks = submit_tasks(5)
    worker.acquire(5)
    expire_leases(*tasks[:4])
    assert expire(using=USING, page=2) == 4
    assert [state_of(task) for task in tasks] == ["queued"] * 4 + ["active"]
    assert expire(using=USING, page=2) == 0
    assert_audit_clean()


def test_a_clock_that_is_set_back_between_the_statements_makes_no_endless_loop(worker: Worker, monkeypatch):
    tasks = submit_tasks(3)
    worker.acquire(3)
    expire_leases()
    run = sql.run

    def set_back(name, using, parameters=None):
        rows = run(name, using, parameters)
        if name == "lock_expired_leases":
            execute("update ledgence_lease set expires_at = clock_timestamp() + interval '1 s'")
        return rows

    monkeypatch.setattr(sql, "run", set_back)
    assert expire(using=USING, page=1) == 0
    monkeypatch.undo()
    assert {state_of(task) for task in tasks} == {"active"}


def test_terminal_tasks_are_left_alone(worker: Worker):
    task = submit_task()
    assignment = worker.acquire_one()
    worker.settle(assignment)
    assert expire(using=USING) == 0
    assert outcomes_of(task) == ["succeeded"]


def test_the_next_expiry_is_told_for_the_housekeeper(clock: FrozenClock, worker: Worker):
    assert seconds_to_next_expiry(using=USING) is None
    submit_tasks(2)
    worker.acquire_one()
    clock.advance(seconds=10)
    worker.acquire_one()
    assert seconds_to_next_expiry(using=USING) == 50.0
    clock.advance(seconds=51)
    assert seconds_to_next_expiry(using=USING) == -1.0


@pytest.mark.django_db(transaction=True)
def test_held_leases_starve_nobody():
    worker = Worker()
    tasks = submit_tasks(6)
    worker.acquire(6)
    expire_leases()
    # The first page would be held rows only.
    execute("update ledgence_lease set expires_at = expires_at - interval '1 s' where task_id = any(%s)", [tasks[:3]])
    with Rival() as rival, rival.transaction():
        rival.execute("select 1 from ledgence_lease where task_id = any(%s) for update", [tasks[:3]])
        assert expire(using=USING, page=2) == 3
        assert {state_of(task) for task in tasks[3:]} == {"queued"}
    assert expire(using=USING, page=2) == 3
    assert_audit_clean()


@pytest.mark.django_db(transaction=True)
def test_a_renewal_that_commits_while_expiry_looks_wins():
    worker = Worker()
    submit_task()
    assignment = worker.acquire_one()
    with Rival() as rival:
        with rival.transaction():
            rival.do(lambda: worker.renew(assignment))
            assert expire(using=USING) == 0
        assert expire(using=USING) == 0
    assert worker.settle(assignment).status == SettleStatus.ACCEPTED


@pytest.mark.django_db(transaction=True)
def test_two_housekeepers_end_each_lease_once():
    worker = Worker()
    tasks = submit_tasks(4)
    worker.acquire(4)
    expire_leases()
    with Rival() as rival:
        with transaction.atomic():
            mine = expire(using=USING, page=4)
            theirs = rival.do(lambda: expire(using=USING, page=4))
        assert (mine, theirs) == (4, 0)
    assert all(outcomes_of(task) == ["lost"] for task in tasks)
    assert_audit_clean()


@pytest.mark.django_db(transaction=True)
def test_a_lease_that_cannot_be_ended_keeps_no_other_from_it(caplog):
    tasks = submit_tasks(5)
    Worker().acquire(5)
    expire_leases()
    bad = tasks[1]
    execute(
        "create function refuse() returns trigger language plpgsql as $$ begin "
        f"if new.task_id = '{bad}' then raise exception 'not this one'; end if; return new; end $$"
    )
    execute("create trigger refuse before update on ledgence_attempt for each row execute function refuse()")
    try:
        assert expire(using=USING) == 4
        assert expire(using=USING) == 0
    finally:
        execute("drop function refuse() cascade")
    assert caplog.text.count(f"lease cannot be ended task={bad} attempt=1 error=not this one") == 2
    assert [state_of(task) for task in tasks] == ["queued", "active", "queued", "queued", "queued"]
    assert expire(using=USING) == 1
    assert_audit_clean()
