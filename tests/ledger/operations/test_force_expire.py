"""Forced expiry: fences off the attempt that the operator saw, and no other."""

import pytest

from ledgence.operations.operate import force_expire
from tests.ledger.actors import (
    USING,
    Worker,
    assert_audit_clean,
    expire_leases,
    make_due,
    operator,
    outcomes_of,
    state_of,
    submit_task,
)

pytestmark = pytest.mark.django_db


def test_ends_the_attempt_as_lost_though_its_lease_is_live(worker: Worker) -> None:
    task = submit_task()
    assignment = worker.acquire_one()
    assert force_expire({task: 1}, operator(), using=USING) == {str(task): "expired"}
    assert (state_of(task), outcomes_of(task)) == ("queued", ["lost"])
    assert worker.settle(assignment).status == "ownership_lost"
    assert_audit_clean()


def test_leaves_an_attempt_alone_that_was_claimed_since(worker: Worker) -> None:
    task = submit_task()
    worker.acquire_one()
    force_expire({task: 1}, operator(), using=USING)
    make_due(task)
    second = worker.acquire_one()
    assert force_expire({task: 1}, operator(), using=USING) == {str(task): "moved_on"}
    assert (state_of(task), second.number) == ("active", 2)
    assert_audit_clean()


def test_answers_not_active_without_a_lease() -> None:
    task = submit_task()
    assert force_expire({task: None}, operator(), using=USING) == {str(task): "not_active"}


def test_a_repeat_gets_the_same_answers_and_ends_nothing_more(worker: Worker) -> None:
    task = submit_task()
    worker.acquire_one()
    who = operator()
    first = force_expire({task: 1}, who, using=USING)
    make_due(task)
    worker.acquire_one()
    expire_leases(task)
    assert force_expire({task: 1}, who, using=USING) == first
    assert state_of(task) == "active"
