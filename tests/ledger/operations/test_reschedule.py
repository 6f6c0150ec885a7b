"""Rescheduling: queued work is made due, moved to another queue, and given another priority; what moved on is left."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from ledgence.models import Attempt, DeliveryEvent, DeliveryIntent, OperatorAction, Queue, Task
from ledgence.operations.actions import Answers, Operator
from ledgence.operations.cancel import cancel
from ledgence.operations.operate import requeue
from ledgence.operations.reschedule import move, run_now, set_priority
from ledgence.operations.routes import QueueName, activate
from ledgence_worker.errors import Busy, Conflict, InvalidInput
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import (
    USING,
    Worker,
    assert_audit_clean,
    attempts_of,
    execute,
    make_due,
    operator,
    state_of,
    statuses_of,
    submit_task,
    submit_tasks,
)
from tests.ledger.frozen import FrozenClock
from tests.ledger.rivals import Rival

HOUR = timedelta(hours=1)


def make_queue(name: str, *, mode: str = "integrated", tenant: str = "default") -> Queue:
    destination = f"there/{name}" if mode == "external" else None
    return Queue.objects.create(tenant=tenant, namespace="default", name=name, mode=mode, destination=destination)


def intent_of(task: UUID) -> DeliveryIntent:
    return DeliveryIntent.objects.get(pk=task)


def move_one(task: UUID, queue: str, generation: int = 1) -> str:
    return move({task: generation}, operator(), queue=queue, using=USING)[str(task)]


#: Each with something that changes a queued task of the queue "default" and priority 0.
ACTS: dict[str, Callable[[dict[UUID, int], Operator], Answers]] = {
    "run now": lambda tasks, by: run_now(tasks, by, using=USING),
    "move": lambda tasks, by: move(tasks, by, queue="other", using=USING),
    "set priority": lambda tasks, by: set_priority(tasks, by, priority=7, using=USING),
}
DONE = {"run now": "due", "move": "moved", "set priority": "set"}


@pytest.mark.parametrize("name", ACTS)
class TestEach:
    def test_every_row_is_answered_by_itself(self, name: str, clock: FrozenClock, worker: Worker):
        make_queue("other")
        active = submit_task()
        worker.acquire_one()
        queued, again, moved_on, over = submit_tasks(4, run_after=clock.now + HOUR)
        cancel([over], using=USING)
        unknown = uuid4()
        ACTS[name]({again: 1}, operator())
        answers = ACTS[name]({active: 1, queued: 1, again: 1, moved_on: 2, over: 1, unknown: 1}, operator())
        assert answers == {
            str(active): "not_queued",
            str(queued): DONE[name],
            str(again): "already",
            str(moved_on): "moved_on",
            str(over): "not_queued",
            str(unknown): "not_queued",
        }
        assert_audit_clean()

    def test_the_next_generation_is_not_what_was_seen(self, name: str, worker: Worker):
        make_queue("other")
        task = submit_task()
        worker.settle(worker.acquire_one(), Outcome.CRASHED)
        before = DeliveryIntent.objects.values().get()
        assert ACTS[name]({task: 1}, operator()) == {str(task): "moved_on"}
        assert DeliveryIntent.objects.values().get() == before
        assert ACTS[name]({task: 2}, operator()) == {str(task): DONE[name]}
        assert_audit_clean()

    def test_a_repeat_gets_the_same_answers_and_does_nothing(self, name: str, clock: FrozenClock, worker: Worker):
        make_queue("other")
        task, by = submit_task(run_after=clock.now + HOUR), operator()
        first = ACTS[name]({task: 1}, by)
        before = DeliveryIntent.objects.values().get()
        clock.advance(seconds=1)
        assert ACTS[name]({task: 1}, by) == first == {str(task): DONE[name]}
        assert DeliveryIntent.objects.values().get() == before
        action = OperatorAction.objects.get()
        assert (action.matched, action.changed, action.skipped) == (1, 1, None)

    @pytest.mark.django_db(transaction=True)
    def test_it_waits_for_a_claim_and_leaves_what_was_claimed(self, name: str):
        make_queue("other")
        worker = Worker()
        task = submit_task()
        with Rival() as rival:
            with transaction.atomic():
                assert worker.acquire_one().task_id == task
                acting = rival.begin(lambda: ACTS[name]({task: 1}, operator()))
                rival.wait_until_blocked(acting)
            assert acting.result(20) == {str(task): "not_queued"}
        assert_audit_clean()

    @pytest.mark.django_db(transaction=True)
    def test_of_two_operators_one_changes_the_task(self, name: str):
        make_queue("other")
        [task] = submit_tasks(1)
        execute("update ledgence_deliveryintent set available_at = clock_timestamp() + interval '1 h'")
        with Rival() as rival:
            with transaction.atomic():
                assert ACTS[name]({task: 1}, operator()) == {str(task): DONE[name]}
                other = rival.begin(lambda: ACTS[name]({task: 1}, operator()))
                rival.wait_until_blocked(other)
            assert other.result(20) == {str(task): "already"}
        assert sorted(OperatorAction.objects.values_list("changed", flat=True)) == [0, 1]
        assert_audit_clean()


class TestRunNow:
    def test_work_for_later_is_due_and_taken(self, clock: FrozenClock, worker: Worker):
        task = submit_task(run_after=clock.now + HOUR)
        assert worker.acquire(1) == []
        assert run_now({task: 1}, operator(), using=USING) == {str(task): "due"}
        assert intent_of(task).available_at == clock.now
        assert worker.acquire_one().task_id == task
        assert_audit_clean()

    def test_the_backoff_of_a_retry_is_cut_short(self, worker: Worker):
        task = submit_task()
        worker.settle(worker.acquire_one(), Outcome.CRASHED)
        assert run_now({task: 2}, operator(), using=USING) == {str(task): "due"}
        assert worker.acquire_one().number == 2

    def test_work_of_an_external_queue_is_published_now(self, clock: FrozenClock):
        make_queue("sqs", mode="external")
        task = submit_task(queue="sqs", run_after=clock.now + HOUR)
        before = intent_of(task)
        assert before.next_publish_at == clock.now + HOUR
        run_now({task: 1}, operator(), using=USING)
        after = intent_of(task)
        assert (after.available_at, after.next_publish_at) == (clock.now, clock.now)
        assert (after.epoch, after.publication_id) == (before.epoch, before.publication_id)
        assert_audit_clean()

    def test_what_a_publisher_sends_at_this_moment_is_left_to_it(self, clock: FrozenClock):
        make_queue("sqs", mode="external")
        task = submit_task(queue="sqs", run_after=clock.now + HOUR)
        token, until = uuid4(), clock.now + timedelta(seconds=30)
        DeliveryIntent.objects.update(publish_token=token, next_publish_at=until)
        run_now({task: 1}, operator(), using=USING)
        intent = intent_of(task)
        assert (intent.available_at, intent.next_publish_at, intent.publish_token) == (clock.now, until, token)


class TestMove:
    def test_a_task_waits_in_the_other_queue_as_before(self, clock: FrozenClock, worker: Worker):
        other = make_queue("other")
        task = submit_task(priority=5, run_after=clock.now + HOUR)
        assert move_one(task, "other") == "moved"
        intent = intent_of(task)
        assert (intent.queue_id, Task.objects.get().queue_id) == (other.pk, other.pk)
        assert (intent.priority, intent.available_at, intent.generation) == (5, clock.now + HOUR, 1)
        assert (intent.publication_id, intent.next_publish_at, DeliveryEvent.objects.count()) == (None, None, 0)
        make_due(task)
        assert Worker(queues=["default"]).acquire(1) == []
        assert Worker(queues=["other"]).acquire_one().queue == "other"
        assert_audit_clean()

    def test_later_attempts_and_a_requeue_stay_in_the_other_queue(self, worker: Worker):
        other = make_queue("other")
        task = submit_task(max_attempts=2)
        move_one(task, "other")
        worker.settle(worker.acquire_one(), Outcome.CRASHED)
        assert intent_of(task).queue_id == other.pk
        make_due()
        worker.settle(worker.acquire_one(), Outcome.CRASHED)
        requeue({task: 1}, operator(), using=USING)
        assert intent_of(task).queue_id == other.pk
        assert_audit_clean()

    def test_each_task_goes_to_the_queue_of_its_own_tenant(self, db):
        mine, theirs = make_queue("other"), make_queue("other", tenant="t")
        first, second, third = submit_task(), submit_task(tenant="t"), submit_task(tenant="u")
        assert move({first: 1, second: 1, third: 1}, operator(), queue="other", using=USING) == {
            str(first): "moved",
            str(second): "moved",
            str(third): "no_such_queue",
        }
        assert (intent_of(first).queue_id, intent_of(second).queue_id) == (mine.pk, theirs.pk)
        assert Task.objects.get(pk=third).queue.name == "default"
        assert_audit_clean()

    def test_into_an_external_queue_it_is_announced_when_it_is_due(self, clock: FrozenClock):
        make_queue("sqs", mode="external")
        later, due, time = submit_task(run_after=clock.now + HOUR), submit_task(), clock.now + HOUR
        clock.advance(seconds=5)
        move({later: 1, due: 1}, operator(), queue="sqs", using=USING)
        assert intent_of(later).next_publish_at == time
        assert intent_of(due).next_publish_at == clock.now
        assert None not in (intent_of(later).publication_id, intent_of(due).publication_id)
        assert DeliveryEvent.objects.count() == 0
        assert_audit_clean()

    def test_out_of_an_external_queue_it_is_acquired(self, clock: FrozenClock, worker: Worker):
        make_queue("sqs", mode="external")
        make_queue("other")
        task = submit_task(queue="sqs")
        sent = {"publish_token": uuid4(), "confirmed_at": clock.now, "refusals": 3}
        DeliveryIntent.objects.update(**sent)
        before = intent_of(task)
        assert move_one(task, "other") == "moved"
        intent = intent_of(task)
        assert (intent.publication_id, intent.next_publish_at, intent.publish_token) == (None, None, None)
        assert (intent.confirmed_at, intent.refusals, intent.epoch) == (None, 0, 2)
        event = DeliveryEvent.objects.get()
        assert (event.kind, event.epoch, event.publication_id) == ("moved", 1, before.publication_id)
        assert worker.acquire_one().task_id == task
        assert attempts_of(task)[0].delivery_mode == "integrated"
        assert_audit_clean()

    def test_from_one_external_queue_to_another_it_is_a_new_publication(self, clock: FrozenClock):
        make_queue("sqs", mode="external")
        make_queue("other", mode="external")
        task = submit_task(queue="sqs")
        before = intent_of(task)
        move_one(task, "other")
        after = intent_of(task)
        assert after.publication_id not in (None, before.publication_id)
        assert (after.epoch, after.next_publish_at) == (2, clock.now)
        assert_audit_clean()

    def test_a_message_of_the_old_queue_is_superseded_and_no_stranger(self, db):
        make_queue("sqs", mode="external")
        make_queue("other", mode="external")
        task = submit_task(queue="sqs")
        old, both, third = Worker(queues=["sqs"]), Worker(), Worker(queues=["default"])
        move_one(task, "other")
        assert statuses_of(old.claim((task, 1))) == {(task, 1): "terminal_or_superseded"}
        # A later generation was never announced there, and who serves neither queue knows nothing of it.
        assert statuses_of(old.claim((task, 2))) == {(task, 2): "not_found"}
        assert statuses_of(third.claim((task, 1))) == {(task, 1): "not_found"}
        assert statuses_of(both.claim((task, 1))) == {(task, 1): "claimed"}
        assert statuses_of(old.claim((task, 1))) == {(task, 1): "terminal_or_superseded"}
        assert_audit_clean()

    @pytest.mark.django_db(transaction=True)
    def test_a_claim_that_waits_for_it_gets_nothing_of_a_queue_that_the_session_does_not_serve(self):
        make_queue("sqs", mode="external")
        make_queue("other", mode="external")
        task = submit_task(queue="sqs")
        worker = Worker(queues=["sqs"])
        with Rival() as rival:
            with transaction.atomic():
                move_one(task, "other")
                claiming = rival.begin(lambda: worker.claim((task, 1)))
                rival.wait_until_blocked(claiming)
            assert statuses_of(claiming.result(20)) == {(task, 1): "terminal_or_superseded"}
        assert not Attempt.objects.exists()
        assert_audit_clean()

    @pytest.mark.parametrize("queue", ["", "a" * 129, "a\0"])
    def test_a_name_that_no_queue_can_have_is_refused(self, db, queue: str):
        task = submit_task()
        with pytest.raises(InvalidInput, match="queue"):
            move({task: 1}, operator(), queue=queue, using=USING)
        assert not OperatorAction.objects.exists()

    def test_an_id_used_for_another_queue_is_a_conflict(self, db):
        make_queue("a")
        make_queue("b")
        task, by = submit_task(), operator()
        move({task: 1}, by, queue="a", using=USING)
        with pytest.raises(Conflict, match="recorded before"):
            move({task: 1}, by, queue="b", using=USING)
        assert OperatorAction.objects.get().parameters == {"queue": "a"}
        assert Task.objects.get().queue.name == "a"

    @pytest.mark.django_db(transaction=True)
    def test_a_route_that_is_activated_meanwhile_is_waited_for_and_then_followed(self):
        make_queue("other")
        task = submit_task()
        with Rival() as rival:
            with transaction.atomic():
                name = QueueName(tenant="default", namespace="default", queue="other")
                activate({name: "there"}, operator(), using=USING)
                moving = rival.begin(lambda: move_one(task, "other"))
                rival.wait_until_blocked(moving)
            assert moving.result(20) == "moved"
        assert intent_of(task).publication_id is not None
        assert_audit_clean()

    @pytest.mark.django_db(transaction=True)
    def test_a_route_is_not_activated_over_work_that_is_being_moved_there(self):
        make_queue("other")
        task = submit_task()
        name = QueueName(tenant="default", namespace="default", queue="other")
        with Rival() as rival:
            with transaction.atomic():
                move_one(task, "other")
                with pytest.raises(Busy):
                    rival.do(lambda: activate({name: "there"}, operator(), using=USING))
            with pytest.raises(Conflict, match="still has queued tasks"):
                rival.do(lambda: activate({name: "there"}, operator(), using=USING))
        assert_audit_clean()


class TestSetPriority:
    def test_a_task_overtakes_and_keeps_its_priority(self, worker: Worker):
        first, second = submit_tasks(2)
        assert set_priority({second: 1}, operator(), priority=3, using=USING) == {str(second): "set"}
        assert Task.objects.get(pk=second).priority == 3
        assignment = worker.acquire_one()
        assert assignment.task_id == second
        worker.settle(assignment, Outcome.CRASHED)
        assert intent_of(second).priority == 3
        assert Task.objects.get(pk=first).priority == 0
        assert_audit_clean()

    @pytest.mark.parametrize("priority", [-101, 101])
    def test_a_priority_out_of_range_is_refused(self, db, priority: int):
        task = submit_task()
        with pytest.raises(InvalidInput, match="priority"):
            set_priority({task: 1}, operator(), priority=priority, using=USING)
        assert state_of(task) == "queued"
