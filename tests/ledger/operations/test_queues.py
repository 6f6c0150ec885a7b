"""Pausing: a queue hands out nothing to acquisitions that begin after the commit; what runs goes on."""

import pytest
from django.db import transaction

from ledgence.models import OperatorAction, Queue
from ledgence.operations.queues import pause, resume
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import (
    USING,
    Worker,
    assert_audit_clean,
    make_due,
    operator,
    state_of,
    submit_task,
    submit_tasks,
)
from tests.ledger.frozen import FrozenClock
from tests.ledger.rivals import Rival


def queue_of(name="default"):
    return Queue.objects.get(name=name)


def test_who_paused_why_and_when_stands_on_the_queue(clock: FrozenClock):
    submit_task()
    pk = queue_of().pk
    assert pause([pk], operator("broken"), using=USING) == {str(pk): "paused"}
    queue = queue_of()
    assert (queue.paused_at, queue.paused_by, queue.pause_reason) == (clock.now, "op", "broken")
    # A second pause changes nothing.
    clock.advance(seconds=1)
    assert pause([pk], operator("other"), using=USING) == {str(pk): "already"}
    assert queue_of().pause_reason == "broken" and queue_of().paused_at == queue.paused_at
    assert resume([pk], operator("fixed"), using=USING) == {str(pk): "resumed"}
    queue = queue_of()
    assert (queue.paused_at, queue.paused_by, queue.pause_reason) == (None, "", "")
    assert resume([pk], operator("fixed"), using=USING) == {str(pk): "already"}
    assert sorted(OperatorAction.objects.values_list("kind", flat=True)) == ["pause", "pause", "resume", "resume"]


def test_a_paused_queue_keeps_its_work_and_goes_on_with_what_runs(worker: Worker):
    running, waiting = submit_tasks(2)
    assignment = worker.acquire_one()
    pk = queue_of().pk
    pause([pk], operator(), using=USING)
    assert worker.acquire(5) == []
    assert worker.renew(assignment).status == "renewed"
    assert worker.settle(assignment, Outcome.CRASHED).consequence == "retry"
    make_due()
    assert worker.acquire(5) == []
    submit_task()
    resume([pk], operator(), using=USING)
    assert {a.task_id for a in worker.acquire(2)} == {running, waiting}
    assert_audit_clean()


def test_other_queues_go_on(worker: Worker):
    submit_task(queue="a")
    task = submit_task(queue="b")
    pause([queue_of("a").pk], operator(), using=USING)
    assert [a.task_id for a in worker.acquire(5)] == [task]


def test_every_queue_is_answered_and_a_repeat_gets_the_same(db):
    for name in ("a", "b"):
        submit_task(queue=name)
    a, b, by = queue_of("a").pk, queue_of("b").pk, operator()
    pause([a], operator(), using=USING)
    answers = {str(a): "already", str(b): "paused", "999999": "not_found"}
    assert pause([b, 999_999, a], by, using=USING) == answers
    resume([a, b], operator(), using=USING)
    assert pause([a, b, 999_999], by, using=USING) == answers
    assert queue_of("b").paused_at is None


@pytest.mark.django_db(transaction=True)
def test_a_pause_holds_from_its_commit_on():
    worker, other = Worker(), Worker()
    tasks = submit_tasks(3)
    with Rival() as rival:
        with transaction.atomic():
            pause([queue_of().pk], operator(), using=USING)
            [assignment] = rival.do(lambda: worker.acquire(1))
            assert assignment.task_id == tasks[0]
        assert rival.do(lambda: worker.acquire(1)) == []
    assert other.acquire(1) == []
    assert state_of(tasks[1]) == "queued"
