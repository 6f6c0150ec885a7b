"""Authorization: permission to start user code, given once to the live owner of a lease that nobody asked to cancel."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import transaction

from ledgence.models import Lease
from ledgence.operations.authorize import Authorization, authorize
from ledgence.operations.cancel import cancel
from ledgence.operations.expire import expire
from ledgence_worker.protocol import Outcome, Owner
from tests.ledger.actors import (
    USING,
    Worker,
    assert_audit_clean,
    attempts_of,
    expire_leases,
    make_due,
    submit_task,
    submit_tasks,
)
from tests.ledger.frozen import MICROSECOND, FrozenClock
from tests.ledger.rivals import Rival, hold_lease_until_it_expires


def claim_one(worker: Worker, task, number=1):
    [assignment] = worker.claim((task, number)).assignments
    return assignment


def test_a_claim_by_name_is_not_authorized_until_it_asks(clock: FrozenClock, worker: Worker):
    task = submit_task(timeout=100)
    assignment = claim_one(worker, task)
    assert attempts_of(task)[0].authorized_at is None
    clock.advance(seconds=20)
    answer = worker.authorize(assignment)
    assert answer == Authorization(owner=assignment.owner, is_granted=True, timeout_seconds=100.0)
    assert attempts_of(task)[0].authorized_at == clock.now


def test_the_execution_deadline_counts_from_the_first_grant(clock: FrozenClock, worker: Worker):
    task = submit_task(timeout=100)
    assignment = claim_one(worker, task)
    assert Lease.objects.get().bound_at == clock.now + timedelta(seconds=130)
    clock.advance(seconds=20)
    granted_at = clock.now
    worker.authorize(assignment)
    assert Lease.objects.get().bound_at == granted_at + timedelta(seconds=130)
    clock.advance(seconds=30)
    assert worker.authorize(assignment).timeout_seconds == 70.0
    assert attempts_of(task)[0].authorized_at == granted_at
    assert Lease.objects.get().bound_at == granted_at + timedelta(seconds=130)


def test_integrated_acquisition_grants_it_in_the_same_commit(clock: FrozenClock, worker: Worker):
    task = submit_task(timeout=100)
    assignment = worker.acquire_one()
    assert attempts_of(task)[0].authorized_at == clock.now
    clock.advance(seconds=1)
    assert worker.authorize(assignment).timeout_seconds == 99.0


@pytest.mark.parametrize(("offset", "granted"), [(-1, True), (0, False), (1, False)])
def test_expiry_is_exact_to_the_microsecond(clock: FrozenClock, worker: Worker, offset, granted):
    task = submit_task()
    assignment = claim_one(worker, task)
    clock.set(Lease.objects.get().expires_at + offset * MICROSECOND)
    assert worker.authorize(assignment).is_granted is granted
    assert (attempts_of(task)[0].authorized_at is not None) is granted


@pytest.mark.parametrize(("offset", "granted"), [(-1, True), (0, False), (1, False)])
def test_past_the_deadline_it_is_refused_though_the_lease_is_live(clock: FrozenClock, worker: Worker, offset, granted):
    assignment = claim_one(worker, submit_task(timeout=10))
    worker.authorize(assignment)
    clock.set(clock.now + timedelta(seconds=10) + offset * MICROSECOND)
    assert Lease.objects.get().expires_at > clock.now
    answer = worker.authorize(assignment)
    assert answer.is_granted is granted
    assert answer.timeout_seconds == (pytest.approx(0.000001) if granted else None)


def test_without_a_time_out_there_is_no_deadline_and_no_bound(clock: FrozenClock, worker: Worker):
    assignment = claim_one(worker, submit_task(timeout=None))
    clock.advance(seconds=59)
    answer = worker.authorize(assignment)
    assert answer.is_granted and answer.timeout_seconds is None
    assert Lease.objects.get().bound_at is None


def test_after_a_cancel_request_it_is_refused_and_the_bound_stays(clock: FrozenClock, worker: Worker):
    task = submit_task()
    assignment = claim_one(worker, task)
    cancel([task], using=USING)
    assert not worker.authorize(assignment).is_granted
    assert Lease.objects.get().bound_at == clock.now + timedelta(seconds=30)
    assert attempts_of(task)[0].authorized_at is None


def test_wrong_and_old_owners_are_refused(worker: Worker):
    task = submit_task()
    first = claim_one(worker, task)
    expire_leases()
    expire(using=USING)
    make_due()
    second = claim_one(worker, task, 2)
    wrong = [
        first.owner,
        replace(first.owner, number=2),
        replace(second.owner, number=1),
        replace(second.owner, token=uuid4()),
        Owner(task_id=uuid4(), number=2, token=second.token),
    ]
    assert not any(answer.is_granted for answer in authorize(worker.session_id, wrong, using=USING))
    assert not Worker().authorize(second).is_granted
    assert [attempt.authorized_at for attempt in attempts_of(task)] == [None, None]
    worker.settle(second, Outcome.CRASHED)
    assert not worker.authorize(second).is_granted


def test_a_batch_is_answered_in_order_item_by_item(worker: Worker):
    tasks = submit_tasks(3)
    claimed = worker.claim(*((task, 1) for task in tasks)).assignments
    cancel([claimed[1].task_id], using=USING)
    owners = [assignment.owner for assignment in claimed][::-1]
    answers = authorize(worker.session_id, owners, using=USING)
    assert [(answer.owner, answer.is_granted) for answer in answers] == [
        (owners[0], True),
        (owners[1], False),
        (owners[2], True),
    ]
    assert authorize(worker.session_id, [], using=USING) == []
    assert_audit_clean()


@pytest.mark.django_db(transaction=True)
def test_a_cancel_request_that_commits_while_it_waits_refuses_it():
    worker = Worker()
    task = submit_task()
    assignment = claim_one(worker, task)
    with Rival() as rival:
        with transaction.atomic():
            cancel([task], using=USING)
            asking = rival.begin(lambda: worker.authorize(assignment))
            rival.wait_until_blocked(asking)
        assert not asking.result(20).is_granted
    assert attempts_of(task)[0].authorized_at is None


@pytest.mark.django_db(transaction=True)
def test_a_lease_that_expires_while_its_row_is_waited_for_refuses_it():
    worker = Worker()
    task = submit_task()
    assignment = claim_one(worker, task)
    with Rival() as rival:
        with transaction.atomic():
            waiting = hold_lease_until_it_expires(rival, lambda: worker.authorize(assignment))
        assert not waiting.result(20).is_granted
    assert attempts_of(task)[0].authorized_at is None
