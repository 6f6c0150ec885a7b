"""Requeue as copy: a new task with the same work, linked to the old one, which stays as it is."""

from uuid import UUID, uuid4

import pytest

from ledgence.models import Task
from ledgence.operations.operate import requeue_as_copy
from tests.ledger.actors import USING, Worker, assert_audit_clean, operator, state_of, submit_task

pytestmark = pytest.mark.django_db


def test_answers_the_id_of_the_copy_and_a_repeat_answers_the_same(worker: Worker) -> None:
    task = submit_task(data={"n": 1.0}, idempotency_key="once", correlation_key="order-7", priority=3)
    worker.settle(worker.acquire_one())
    who, gone = operator(), uuid4()
    answers = requeue_as_copy([task, gone], who, using=USING)
    copy, old = Task.objects.get(pk=UUID(answers[str(task)])), Task.objects.get(pk=task)
    assert answers[str(gone)] == "not_found"
    assert (copy.copy_of, copy.idempotency_key, copy.data) == (task, None, {"n": 1.0})
    same = ("program_id", "policy_id", "queue_id", "priority", "correlation_key")
    assert [getattr(copy, name) for name in same] == [getattr(old, name) for name in same]
    assert (state_of(copy.pk), state_of(task)) == ("queued", "succeeded")
    assert requeue_as_copy([task, gone], who, using=USING) == answers
    assert Task.objects.count() == 2
    assert_audit_clean()
