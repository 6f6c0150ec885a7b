"""Operator actions on tasks: requeue, copy, cancel, republish; each recorded, and replayed by its id."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction

from ledgence.models import DeliveryEvent, DeliveryIntent, Lease, OperatorAction, OperatorActionTarget, Queue, Task
from ledgence.operations.actions import TARGETS_MAX
from ledgence.operations.cancel import cancel
from ledgence.operations.operate import cancel_by_operator, republish, requeue, requeue_as_copy
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
    outcomes_of,
    state_of,
    submit_task,
    submit_tasks,
)
from tests.ledger.frozen import FrozenClock
from tests.ledger.rivals import Rival


def fail(worker: Worker, **options):
    """Submit a task and let it fail."""
    task = submit_task(**options)
    worker.settle(worker.acquire_one(), Outcome.FAILED)
    return task


def requeue_one(task, revision=1, by=None):
    return requeue({task: revision}, by or operator(), using=USING)[str(task)]


def row_of(task):
    return Task.objects.defer("data", "result").values().get(pk=task)


class TestRequeue:
    def test_a_failed_task_becomes_the_next_generation_with_its_budget_anew(self, clock: FrozenClock, worker: Worker):
        task = submit_task(max_attempts=2, priority=7)
        for _ in range(2):
            make_due()
            worker.settle(worker.acquire_one(), Outcome.CRASHED)
        assert state_of(task) == "failed"
        clock.advance(seconds=5)
        assert requeue_one(task) == "requeued"
        intent = DeliveryIntent.objects.get()
        assert (intent.generation, intent.cause, intent.charged) == (3, "requeued", 0)
        assert (intent.available_at, intent.priority) == (clock.now, 7)
        assert Task.objects.get().revision == 2
        assert worker.settle(worker.acquire_one(), Outcome.CRASHED).consequence == "retry"
        make_due()
        assert worker.settle(worker.acquire_one(), Outcome.CRASHED).consequence == "failed"
        assert outcomes_of(task) == ["crashed"] * 4
        assert [attempt.cause for attempt in attempts_of(task)] == ["submitted", "crashed", "requeued", "crashed"]
        assert_audit_clean()

    def test_a_task_for_later_is_ready_at_once(self, clock: FrozenClock):
        task = submit_task(run_after=clock.now + timedelta(days=1))
        cancel([task], using=USING)
        requeue_one(task)
        assert DeliveryIntent.objects.get().available_at == clock.now

    def test_a_cancelled_task_is_not_asked_to_stop_any_more(self, worker: Worker):
        task = submit_task()
        assignment = worker.acquire_one()
        cancel([task], using=USING)
        worker.settle(assignment, Outcome.CANCELLED)
        assert requeue_one(task) == "requeued"
        assert not worker.renew(worker.acquire_one()).cancel_requested
        assert Task.objects.get().cancel_requested_at is None
        assert_audit_clean()

    @pytest.mark.parametrize("revision", [0, 2, 3, 7])
    def test_only_the_revision_that_was_seen_is_requeued(self, worker: Worker, revision):
        task = fail(worker)
        before = row_of(task)
        assert requeue_one(task, revision) == "moved_on"
        assert row_of(task) == before
        assert_audit_clean()

    def test_a_task_that_failed_again_since_has_moved_on(self, worker: Worker):
        task = fail(worker)
        assert requeue_one(task) == "requeued"
        worker.settle(worker.acquire_one(), Outcome.FAILED)
        assert requeue_one(task) == "moved_on"
        assert requeue_one(task, 3) == "requeued"
        assert Task.objects.get().revision == 4
        assert_audit_clean()

    def test_a_succeeded_task_is_never_reopened(self, worker: Worker):
        task = submit_task()
        worker.settle(worker.acquire_one(), result='"kept"')
        before = row_of(task)
        assert requeue_one(task) == "succeeded"
        assert row_of(task) == before and Task.objects.get().result == "kept"

    def test_a_task_that_is_not_over_is_left_alone(self, worker: Worker):
        active, queued = submit_tasks(2)
        worker.acquire_one()
        assert requeue({active: 0, queued: 0}, operator(), using=USING) == {
            str(active): "not_terminal",
            str(queued): "not_terminal",
        }
        assert (state_of(active), state_of(queued)) == ("active", "queued")

    def test_every_row_is_answered_by_itself(self, worker: Worker):
        failed, moved_on = fail(worker), fail(worker)
        done = submit_task()
        worker.settle(worker.acquire_one())
        queued, unknown = submit_task(), uuid4()
        seen = {queued: 0, failed: 1, unknown: 1, moved_on: 5, done: 1}
        assert requeue(seen, operator(), using=USING) == {
            str(failed): "requeued",
            str(moved_on): "moved_on",
            str(done): "succeeded",
            str(queued): "not_terminal",
            str(unknown): "not_found",
        }
        assert_audit_clean()

    @pytest.mark.django_db(transaction=True)
    def test_of_two_operators_who_saw_the_same_failure_one_requeues(self):
        worker = Worker()
        task = fail(worker)
        with Rival() as rival:
            with transaction.atomic():
                assert requeue_one(task) == "requeued"
                other = rival.begin(lambda: requeue_one(task))
                rival.wait_until_blocked(other)
            assert other.result(20) == "moved_on"
        assert DeliveryIntent.objects.count() == 1
        assert_audit_clean()


class TestRecord:
    def test_who_what_why_when_and_on_which_revision_is_kept(self, clock: FrozenClock, worker: Worker):
        task, unknown = fail(worker), uuid4()
        user = get_user_model().objects.create_user("ann")
        by = replace(operator("broken input\nfixed"), user_id=user.pk, name="ann")
        requeue({task: 1, unknown: 3}, by, using=USING)
        action = OperatorAction.objects.get()
        assert (action.matched, action.changed, action.skipped) == (2, 1, {"not_found": 1})
        assert (action.state, action.parameters, action.scope) == ("done", None, None)
        assert (action.pk, action.kind, action.actor_id, action.actor_name) == (by.action_id, "requeue", user.pk, "ann")
        assert (action.reason, action.acted_at) == ("broken input\nfixed", clock.now)
        assert set(action.targets.values_list("target", "expected_revision", "answer")) == {
            (str(task), 1, "requeued"),
            (str(unknown), 3, "not_found"),
        }
        user.delete()
        assert OperatorAction.objects.get().actor_name == "ann"

    def test_a_repeat_gets_the_same_answers_though_the_world_moved_on(self, worker: Worker):
        task, by = fail(worker), operator()
        first = requeue({task: 1}, by, using=USING)
        worker.settle(worker.acquire_one(), Outcome.FAILED)
        before = row_of(task)
        assert requeue({task: 1}, by, using=USING) == first == {str(task): "requeued"}
        assert row_of(task) == before
        assert OperatorActionTarget.objects.count() == 1

    def test_a_repeat_by_somebody_else_or_for_another_reason_is_the_same_action(self, worker: Worker):
        task, by = fail(worker), operator()
        first = requeue({task: 1}, by, using=USING)
        assert requeue({task: 1}, replace(by, reason="other", name="bob"), using=USING) == first
        assert OperatorAction.objects.get().actor_name == "op"

    def test_an_id_used_for_something_else_is_a_conflict(self, worker: Worker):
        task, other, by = fail(worker), fail(worker), operator()
        requeue({task: 1}, by, using=USING)
        for again in (
            lambda: requeue({task: 3}, by, using=USING),
            lambda: requeue({other: 1}, by, using=USING),
            lambda: requeue({task: 1, other: 1}, by, using=USING),
            lambda: cancel_by_operator([task], by, using=USING),
            lambda: requeue_as_copy([task], by, using=USING),
        ):
            with pytest.raises(Conflict, match=f"{by.action_id} was recorded before as requeue"):
                again()
        assert state_of(other) == "failed"
        assert OperatorAction.objects.count() == 1
        assert_audit_clean()

    @pytest.mark.parametrize(
        "change",
        [{"reason": ""}, {"reason": " \n"}, {"reason": "a\0"}, {"reason": "\ud800"}, {"name": ""}, {"name": "a\0"}]
        + [{"name": "\ud800"}, {"name": "a" * 256}],
    )
    def test_a_reason_and_a_name_that_cannot_be_kept_are_refused(self, worker: Worker, change):
        task = fail(worker)
        with pytest.raises(InvalidInput, match=next(iter(change))):
            requeue({task: 1}, replace(operator(), **change), using=USING)
        assert state_of(task) == "failed"
        assert not OperatorAction.objects.exists()

    @pytest.mark.parametrize("count", [0, TARGETS_MAX + 1])
    def test_an_action_names_1_to_so_many_rows(self, db, count):
        with pytest.raises(InvalidInput, match=f"{count} rows"):
            cancel_by_operator([uuid4() for _ in range(count)], operator(), using=USING)

    def test_the_largest_action_is_carried_out(self, db):
        tasks = submit_tasks(TARGETS_MAX)
        assert set(cancel_by_operator(tasks, operator(), using=USING).values()) == {"cancelled"}
        assert_audit_clean()

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("committed", [True, False])
    def test_a_repeat_that_comes_while_the_action_runs_waits_and_gets_its_answers(self, committed):
        worker = Worker()
        task, by = fail(worker), operator()
        with Rival() as rival:
            try:
                with transaction.atomic():
                    requeue_one(task, by=by)
                    repeat = rival.begin(lambda: requeue_one(task, by=by))
                    rival.wait_until_blocked(repeat)
                    if not committed:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                pass
            assert repeat.result(20) == "requeued"
        assert Task.objects.get().revision == 2
        assert_audit_clean()

    @pytest.mark.django_db(transaction=True)
    def test_an_action_that_finds_a_row_held_is_busy_and_leaves_no_record(self, settings):
        settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 0.05}
        task = fail(Worker())
        with Rival() as rival, rival.transaction():
            rival.execute("select 1 from ledgence_task for update")
            with pytest.raises(Busy, match="requeue"):
                requeue_one(task)
        assert not OperatorAction.objects.exists()

    def test_an_action_in_a_callers_transaction_falls_with_it(self, worker: Worker):
        task = fail(worker)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            requeue_one(task)
            raise ZeroDivisionError
        assert state_of(task) == "failed"
        assert not OperatorAction.objects.exists()


class TestCopy:
    def test_a_copy_is_new_work_linked_to_the_first(self, worker: Worker):
        data = {"b": 1.0, "a": "\0"}
        options = {"priority": 7, "queue": "q", "tenant": "t", "namespace": "n", "correlation_key": "c"}
        terms = {"max_attempts": 5, "timeout": 12.5, "retry_on": ("failed",), "traceparent": "00-a-b-01"}
        task = submit_task(data=data, idempotency_key="k", **options, **terms)
        cancel([task], using=USING)
        [copied] = requeue_as_copy([task], operator(), using=USING).values()
        rows = {
            str(row.pop("id")): row
            for row in Task.objects.defer("data", "result").values(
                *("id", "tenant", "namespace", "queue", "program", "policy", "priority", "correlation_key"),
                *("traceparent", "copy_of", "idempotency_key", "outcome"),
            )
        }
        assert rows[copied] == rows[str(task)] | {"copy_of": task, "idempotency_key": None, "outcome": None}
        texts = dict(execute("select id::text, data::text from ledgence_task"))
        assert texts[copied] == texts[str(task)] == '{"b":1.0,"a":"\\u0000"}'
        assert state_of(UUID(copied)) == "queued" and state_of(task) == "cancelled"
        assert_audit_clean()

    def test_a_succeeded_task_can_be_copied(self, worker: Worker):
        task = submit_task()
        worker.settle(worker.acquire_one())
        [copied] = requeue_as_copy([task], operator(), using=USING).values()
        assert str(worker.acquire_one().task_id) == copied
        assert state_of(task) == "succeeded"

    def test_a_repeat_names_the_same_copies(self, db):
        first, second, unknown, by = submit_task(data=1), submit_task(data=2), uuid4(), operator()
        answers = requeue_as_copy([second, unknown, first], by, using=USING)
        assert requeue_as_copy([first, second, unknown], by, using=USING) == answers
        assert answers[str(unknown)] == "not_found"
        assert Task.objects.count() == 4
        copies = {answers[str(task)]: task for task in (first, second)}
        assert {str(pk): of for pk, of in Task.objects.exclude(copy_of=None).values_list("pk", "copy_of")} == copies

    def test_a_copy_keeps_a_program_that_this_process_does_not_know(self, db):
        task = submit_task(program="tests.gone", version="0")
        [copied] = requeue_as_copy([task], operator(), using=USING).values()
        assert Task.objects.get(pk=copied).program.name == "tests.gone"


class TestCancelByOperator:
    def test_answers_are_those_of_cancel(self, worker: Worker):
        active, over, queued = submit_tasks(3)
        assignments = worker.acquire(2)
        worker.settle(assignments[1])
        unknown, by = uuid4(), operator()
        answers = cancel_by_operator([queued, unknown, over, active, queued], by, using=USING)
        assert answers == {
            str(active): "requested",
            str(over): "terminal",
            str(queued): "cancelled",
            str(unknown): "not_found",
        }
        # A repeat tells what the first one did.
        assert cancel_by_operator([active, over, queued, unknown], by, using=USING) == answers
        assert_audit_clean()

    def test_only_the_revision_that_was_seen_is_cancelled(self, worker: Worker):
        requeued, active = fail(worker), submit_tasks(2)
        worker.acquire(2)
        queued = submit_tasks(2)
        requeue_one(requeued)
        seen = {queued[0]: 0, queued[1]: 2, active[0]: 0, active[1]: 2, requeued: 0}
        told = cancel_by_operator(seen, operator(), using=USING)
        assert sorted(told.values()) == ["cancelled", "moved_on", "moved_on", "moved_on", "requested"]
        assert told[str(requeued)] == "moved_on"
        assert state_of(requeued) == "queued"
        assert Lease.objects.filter(cancel_requested_at__isnull=False).count() == 1
        assert cancel_by_operator({requeued: 2}, operator(), using=USING) == {str(requeued): "cancelled"}
        assert_audit_clean()

    @pytest.mark.django_db(transaction=True)
    def test_a_task_that_ends_and_is_requeued_while_it_waits_is_left_alone(self):
        worker = Worker()
        task = submit_task()
        assignment = worker.acquire_one()
        with Rival() as rival:
            with transaction.atomic():
                worker.settle(assignment, Outcome.FAILED)
                requeue_one(task)
                cancelling = rival.begin(lambda: cancel_by_operator({task: 0}, operator(), using=USING))
                rival.wait_until_blocked(cancelling)
            assert cancelling.result(20) == {str(task): "moved_on"}
        assert state_of(task) == "queued"
        assert_audit_clean()


class TestRepublish:
    def test_a_queued_task_of_an_external_queue_gets_a_new_epoch_due_now(self, clock: FrozenClock, worker: Worker):
        Queue.objects.create(tenant="default", namespace="default", name="q", mode="external", destination="there")
        task = submit_task(queue="q")
        before = DeliveryIntent.objects.get()
        assert before.publication_id is not None and before.next_publish_at == clock.now
        execute("update ledgence_deliveryintent set next_publish_at = clock_timestamp() + interval '1 h'")
        # Whoever sends the old publication, and what the broker said of it, does not count for the new one.
        DeliveryIntent.objects.update(publish_token=uuid4(), confirmed_at=clock.now)
        clock.advance(seconds=1)
        assert republish([task], operator(), using=USING) == {str(task): "republished"}
        after = DeliveryIntent.objects.get()
        assert (after.epoch, after.next_publish_at, after.generation) == (2, clock.now, 1)
        assert (after.publish_token, after.confirmed_at) == (None, None)
        assert after.publication_id not in (None, before.publication_id)
        event = DeliveryEvent.objects.get()
        assert (event.kind, event.epoch, event.publication_id) == ("republish", 2, after.publication_id)
        assert_audit_clean()

    def test_what_is_not_queued_is_answered(self, worker: Worker):
        active, queued = submit_tasks(2)
        worker.acquire_one()
        unknown = uuid4()
        assert republish([unknown, queued, active], operator(), using=USING) == {
            str(active): "not_queued",
            str(queued): "republished",
            str(unknown): "not_queued",
        }
        assert DeliveryIntent.objects.get().publication_id is None
        assert_audit_clean()

    def test_another_generation_than_the_one_that_was_seen_is_left_alone(self, worker: Worker):
        task = submit_task()
        worker.settle(worker.acquire_one(), Outcome.CRASHED)
        assert republish({task: 1}, operator(), using=USING) == {str(task): "moved_on"}
        assert DeliveryIntent.objects.get().epoch == 1
        assert republish({task: 2}, operator(), using=USING) == {str(task): "republished"}

    def test_the_retry_of_an_external_queue_is_a_new_publication(self, worker: Worker):
        Queue.objects.create(tenant="default", namespace="default", name="q", mode="external", destination="there")
        task = submit_task(queue="q")
        first = DeliveryIntent.objects.get().publication_id
        [assignment] = worker.claim((task, 1)).assignments
        assert attempts_of(task)[0].publication_id == first
        assert (attempts_of(task)[0].delivery_mode, attempts_of(task)[0].destination) == ("external", "there")
        worker.settle(assignment, Outcome.FAILED)
        requeue_one(task)
        intent = DeliveryIntent.objects.get()
        assert intent.publication_id not in (None, first) and intent.next_publish_at is not None
        assert_audit_clean()
