"""Renewal: extends live leases up to their bound, never shortens, never revives, never waits."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from ledgence.models import Lease
from ledgence.operations.cancel import cancel
from ledgence.operations.expire import expire
from ledgence.operations.renew import renew
from ledgence_worker.protocol import Owner, RenewStatus
from tests.ledger.actors import (
    USING,
    Worker,
    expire_leases,
    make_due,
    submit_task,
    submit_tasks,
)
from tests.ledger.frozen import MICROSECOND, FrozenClock
from tests.ledger.rivals import Rival

RENEWED, BUSY, OWNERSHIP_LOST = RenewStatus.RENEWED, RenewStatus.BUSY, RenewStatus.OWNERSHIP_LOST


def test_a_live_lease_is_extended_to_now_plus_its_length(clock: FrozenClock, worker: Worker):
    submit_task()
    assignment = worker.acquire_one()
    clock.advance(seconds=15)
    answer = worker.renew(assignment)
    assert (answer.status, answer.remaining_seconds, answer.cancel_requested) == (RENEWED, 60.0, False)
    assert Lease.objects.get().expires_at == clock.now + timedelta(seconds=60)


def test_no_renewal_reaches_beyond_the_bound(clock: FrozenClock, worker: Worker):
    submit_task(timeout=50)
    assignment = worker.acquire_one()
    start = clock.now
    clock.advance(seconds=40)
    # The execution deadline is at 50 s, the clean-up allowance 30 s.
    answer = worker.renew(assignment)
    assert (answer.status, answer.remaining_seconds) == (RENEWED, 40.0)
    assert Lease.objects.get().expires_at == start + timedelta(seconds=80)
    clock.set(start + timedelta(seconds=80) - MICROSECOND)
    assert worker.renew(assignment).remaining_seconds == pytest.approx(0.000001)
    clock.advance(microseconds=1)
    assert worker.renew(assignment).status == OWNERSHIP_LOST


def test_a_short_time_out_bounds_the_first_lease_too(clock: FrozenClock, worker: Worker):
    submit_task(timeout=1)
    assignment = worker.acquire_one()
    assert assignment.remaining_seconds == 31.0


def test_without_a_time_out_a_lease_is_renewed_for_ever(clock: FrozenClock, worker: Worker):
    submit_task(timeout=None)
    assignment = worker.acquire_one()
    assert assignment.timeout_seconds is None
    for _ in range(100):
        clock.advance(seconds=59)
        assert worker.renew(assignment).remaining_seconds == 60.0


def test_a_renewal_never_shortens(clock: FrozenClock, worker: Worker, settings):
    submit_task()
    assignment = worker.acquire_one()
    before = Lease.objects.get().expires_at
    settings.LEDGENCE = {"LEASE_SECONDS": 20}
    answer = worker.renew(assignment)
    assert (answer.status, answer.remaining_seconds) == (RENEWED, 60.0)
    assert Lease.objects.get().expires_at == before


@pytest.mark.parametrize(("offset", "status"), [(-1, RENEWED), (0, OWNERSHIP_LOST), (1, OWNERSHIP_LOST)])
def test_expiry_is_exact_to_the_microsecond(clock: FrozenClock, worker: Worker, offset, status):
    submit_task()
    assignment = worker.acquire_one()
    expires_at = Lease.objects.get().expires_at
    clock.set(expires_at + offset * MICROSECOND)
    assert worker.renew(assignment).status == status
    if status is OWNERSHIP_LOST:
        assert Lease.objects.get().expires_at == expires_at


def test_an_old_owner_renews_nothing_of_the_new_one(worker: Worker):
    task = submit_task()
    first = worker.acquire_one()
    expire_leases(task)
    expire(using=USING)
    make_due()
    second = worker.acquire_one()
    before = Lease.objects.get().expires_at
    stale = [
        first.owner,
        replace(first.owner, number=2),
        replace(second.owner, number=1),
        replace(second.owner, token=uuid4()),
        Owner(task_id=uuid4(), number=2, token=second.token),
    ]
    answers = renew(worker.session_id, stale, using=USING)
    assert [answer.status for answer in answers] == [OWNERSHIP_LOST] * len(stale)
    assert Worker().renew(second).status == OWNERSHIP_LOST
    assert Lease.objects.get().expires_at == before
    assert worker.renew(second).status == RENEWED


def test_a_batch_is_answered_in_order_item_by_item(worker: Worker):
    submit_tasks(4)
    live, over, settled, asked = worker.acquire(4)
    expire_leases(over.task_id)
    worker.settle(settled)
    cancel([asked.task_id], using=USING)
    owners = [item.owner for item in (asked, over, live, settled)]
    answers = renew(worker.session_id, owners, using=USING)
    assert [(a.task_id, a.number, a.status, a.cancel_requested) for a in answers] == [
        (asked.task_id, 1, RENEWED, True),
        (over.task_id, 1, OWNERSHIP_LOST, False),
        (live.task_id, 1, RENEWED, False),
        (settled.task_id, 1, OWNERSHIP_LOST, False),
    ]
    assert renew(worker.session_id, [], using=USING) == []


def test_a_requested_cancel_bounds_what_renewal_can_reach(clock: FrozenClock, worker: Worker):
    task = submit_task()
    assignment = worker.acquire_one()
    clock.advance(seconds=10)
    cancel([task], using=USING)
    assert worker.renew(assignment).remaining_seconds == 30.0
    clock.advance(seconds=20)
    answer = worker.renew(assignment)
    assert (answer.remaining_seconds, answer.cancel_requested) == (10.0, True)


@pytest.mark.django_db(transaction=True)
def test_a_lease_that_somebody_holds_is_busy_and_costs_the_others_nothing():
    worker = Worker()
    submit_tasks(3)
    assignments = worker.acquire(3)
    expire_leases(assignments[2].task_id)
    with Rival() as rival, rival.transaction():
        rival.execute(
            "select * from ledgence_lease where task_id = any(%s) order by task_id for update",
            [[a.task_id for a in assignments[1:]]],
        )
        answers = renew(worker.session_id, [a.owner for a in assignments], using=USING)
        # What is held and live is busy; what is held and over is lost already.
        assert [answer.status for answer in answers] == [RENEWED, BUSY, OWNERSHIP_LOST]
    assert worker.renew(assignments[1]).status == RENEWED
