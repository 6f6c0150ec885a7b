"""Pausing: a queue hands out nothing to acquisitions that begin after the commit; what runs goes on."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from ledgence.models import OperatorAction, Queue
from ledgence.operations.queues import pause, resume, resume_over
from ledgence_worker.errors import Conflict, InvalidInput
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


def test_only_the_revision_that_was_seen_is_paused_or_resumed(db):
    submit_task()
    pk = queue_of().pk
    assert pause({pk: 1}, operator(), using=USING) == {str(pk): "moved_on"}
    assert pause({pk: 0}, operator("mine"), using=USING) == {str(pk): "paused"}
    # Somebody else resumed it, and paused it for another reason.
    resume({pk: 1}, operator(), using=USING)
    pause({pk: 2}, operator("theirs"), using=USING)
    assert resume({pk: 1}, operator(), using=USING) == {str(pk): "moved_on"}
    assert (queue_of().pause_reason, queue_of().revision) == ("theirs", 3)
    assert pause({pk: 1}, operator(), using=USING) == {str(pk): "already"}


class TestUntil:
    def test_a_pause_that_is_over_is_ended_once_and_recorded(self, clock: FrozenClock):
        submit_task()
        pk, until = queue_of().pk, clock.now + timedelta(minutes=5)
        assert pause([pk], operator("deploy"), until=until, using=USING) == {str(pk): "paused"}
        assert queue_of().paused_until == until
        clock.advance(minutes=4)
        assert resume_over(using=USING) == 0
        clock.set(until)
        assert resume_over(using=USING) == 1
        queue = queue_of()
        assert (queue.paused_at, queue.paused_until, queue.pause_reason, queue.revision) == (None, None, "", 2)
        assert resume_over(using=USING) == 0
        action = OperatorAction.objects.get(kind="resume")
        assert (action.actor_name, action.actor_id, action.changed) == ("housekeeping", None, 1)
        assert "by op: deploy" in action.reason
        assert OperatorAction.objects.get(kind="pause").parameters == {"until": until.astimezone(UTC).isoformat()}

    def test_a_pause_without_an_end_and_one_that_was_resumed_and_renewed_stay(self, clock: FrozenClock):
        submit_task(queue="a")
        submit_task(queue="b")
        a, b = queue_of("a").pk, queue_of("b").pk
        pause([a], operator(), using=USING)
        pause([b], operator(), until=clock.now + timedelta(minutes=1), using=USING)
        resume([b], operator(), using=USING)
        pause([b], operator(), until=clock.now + timedelta(minutes=9), using=USING)
        clock.advance(minutes=5)
        assert resume_over(using=USING) == 0
        assert Queue.objects.filter(paused_at__isnull=False).count() == 2

    def test_a_time_that_is_over_is_refused(self, clock: FrozenClock):
        submit_task()
        with pytest.raises(InvalidInput, match="is over"):
            pause([queue_of().pk], operator(), until=clock.now, using=USING)
        assert not OperatorAction.objects.exists()

    def test_a_repeat_gets_the_same_answer_also_when_the_time_is_over(self, clock: FrozenClock):
        submit_task()
        pk, by, until = queue_of().pk, operator(), clock.now + timedelta(minutes=1)
        answers = pause([pk], by, until=until, using=USING)
        clock.advance(minutes=2)
        assert pause([pk], by, until=until, using=USING) == answers
        for other in (None, datetime(2100, 1, 1, tzinfo=UTC)):
            with pytest.raises(Conflict):
                pause([pk], by, until=other, using=USING)

    @pytest.mark.django_db(transaction=True)
    def test_two_processes_end_a_pause_once(self):
        submit_task()
        pause([queue_of().pk], operator(), until=datetime(2100, 1, 1, tzinfo=UTC), using=USING)
        Queue.objects.update(paused_until=datetime(2000, 1, 1, tzinfo=UTC))
        with Rival() as rival:
            with transaction.atomic():
                assert resume_over(using=USING) == 1
                other = rival.begin(lambda: resume_over(using=USING))
                rival.wait_until_blocked(other)
            other.result(20)
        assert OperatorAction.objects.filter(kind="resume").count() == 1
        assert queue_of().revision == 2


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
