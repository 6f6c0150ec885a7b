"""Routes: made while a queue is empty and nobody makes work for it, given back at any time."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import pytest
from django.db import connections, transaction

from ledgence.api import submit_many
from ledgence.models import DeliveryIntent, OperatorAction, Queue
from ledgence.new_task import NewTask
from ledgence.operations.actions import Operator
from ledgence.operations.cancel import cancel
from ledgence.operations.operate import requeue, requeue_as_copy
from ledgence.operations.routes import QueueName, activate, give_back
from ledgence_worker.errors import Busy, Conflict, InvalidInput
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import (
    PROGRAM,
    USING,
    VERSION,
    Worker,
    assert_audit_clean,
    expire_leases,
    operator,
    state_of,
    submit_task,
    submit_tasks,
)
from tests.ledger.publishers import DEFAULT, PublisherActor, intent_of, named, route, tasks_of
from tests.ledger.races.gate import Gate
from tests.ledger.rivals import Rival


def activated(*, using: str = USING, **destinations: str) -> dict[str, int]:
    """Route queues by name, and return their ids."""
    ids = activate({named(queue): there for queue, there in destinations.items()}, operator(), using=using)
    return {name.queue: pk for name, pk in ids.items()}


def routes() -> dict[str, str | None]:
    return dict(Queue.objects.values_list("name", "destination"))


@pytest.mark.django_db
class TestActivate:
    def test_queues_are_made_and_routed_and_that_is_recorded(self):
        Queue.objects.create(tenant="default", namespace="default", name="b")
        by = operator("a publisher starts")
        ids = activate({named("a"): "here", named("b"): "there"}, by, using=USING)
        assert {name.queue: pk for name, pk in ids.items()} == dict(Queue.objects.values_list("name", "pk"))
        assert routes() == {"a": "here", "b": "there"}
        assert set(Queue.objects.values_list("mode", flat=True)) == {"external"}
        action = OperatorAction.objects.get()
        assert (action.kind, action.reason, action.actor_name) == ("route", "a publisher starts", "op")
        answers = set(action.targets.values_list("target", "answer"))
        assert answers == {(str(pk), "external") for pk in ids.values()}

    def test_a_route_that_stands_is_left_as_it_is_with_its_work(self):
        ids = activated(a="here")
        submit_task(queue="a")
        assert activated(a="here", b="there") == ids | {"b": Queue.objects.get(name="b").pk}
        targets = OperatorAction.objects.order_by("acted_at").values_list("targets__target", flat=True)
        assert list(targets) == [str(pk) for pk in Queue.objects.order_by("pk").values_list("pk", flat=True)]

    def test_a_repeat_of_the_same_action_changes_nothing(self):
        by = operator()
        first = activate({DEFAULT: "there"}, by, using=USING)
        assert activate({DEFAULT: "there"}, by, using=USING) == first
        assert OperatorAction.objects.count() == 1

    def test_work_that_follows_is_published(self):
        route()
        task = submit_task()
        intent = intent_of(task)
        assert intent.publication_id is not None and intent.next_publish_at == intent.available_at
        assert_audit_clean()

    @pytest.mark.parametrize("work", ["queued", "later", "active", "expired", "retried"])
    def test_a_queue_with_work_is_refused(self, work: str):
        submit_task(run_after=datetime.now(UTC) + timedelta(hours=1) if work == "later" else None)
        if work in ("active", "expired", "retried"):
            worker = Worker()
            assignment = worker.acquire_one()
            if work == "expired":
                expire_leases()
            if work == "retried":
                worker.settle(assignment, Outcome.CRASHED)
        what = "active" if work in ("active", "expired") else "queued"
        with pytest.raises(
            Conflict, match=f"Queue default/default/default still has {what} tasks. Let workers empty it"
        ):
            route()
        assert routes() == {"default": None}
        assert not OperatorAction.objects.exists()

    def test_a_queue_with_queued_and_active_work_is_told_so(self):
        submit_tasks(2)
        Worker().acquire_one()
        with pytest.raises(Conflict, match="still has queued and active tasks"):
            route()

    def test_what_has_ended_is_no_hindrance(self):
        done, failed, cancelled = submit_tasks(3)
        worker = Worker()
        for assignment in worker.acquire(2):
            worker.settle(assignment, Outcome.SUCCEEDED if assignment.task_id == done else Outcome.FAILED)
        cancel([cancelled], using=USING)
        queue = route()
        requeue({failed: 1, cancelled: 1}, operator(), using=USING)
        requeue_as_copy([done], operator(), using=USING)
        assert len(PublisherActor(queue).lease()) == 3
        assert_audit_clean()

    def test_a_queue_that_is_routed_elsewhere_is_refused_until_it_is_given_back(self):
        queue = route()
        with pytest.raises(Conflict, match="is routed to there, not to elsewhere. Give it back first"):
            route(destination="elsewhere")
        give_back(queue.id, operator(), using=USING)
        assert route(destination="elsewhere").id == queue.id
        assert routes() == {"default": "elsewhere"}

    def test_a_destination_of_another_queue_is_refused(self):
        activated(a="here")
        with pytest.raises(Conflict, match="Destination here is that of queue default/default/a"):
            activated(b="here")
        assert routes() == {"a": "here"}

    def test_a_destination_that_stands_twice_is_refused_before_anything_is_written(self):
        with pytest.raises(InvalidInput, match="Destination here has 2 routes"):
            activated(a="here", b="here")
        assert routes() == {}

    @pytest.mark.parametrize("field", ["tenant", "namespace", "queue"])
    def test_a_name_that_no_queue_may_have_is_refused(self, field: str):
        names = {"tenant": "t", "namespace": "n", "queue": "q"} | {field: " "}
        with pytest.raises(InvalidInput, match=field):
            activate({QueueName(**names): "here"}, operator(), using=USING)
        assert routes() == {}

    def test_all_or_none(self):
        submit_task(queue="busy")
        with pytest.raises(Conflict):
            activated(a="here", busy="there", c="elsewhere")
        assert routes() == {"busy": None}


@pytest.mark.django_db
class TestGiveBack:
    def test_it_goes_back_with_its_work_and_messages_that_are_out_do_no_harm(self):
        queue = route()
        tasks = submit_tasks(3)
        PublisherActor(queue).publish()
        by_name, worker = Worker(), Worker()
        assert give_back(queue.id, operator(), using=USING) == {str(queue.id): "integrated"}
        assert routes() == {"default": None}
        assert tasks_of(worker.acquire(1)) == tasks[:1]
        # Whoever claims one gets exactly that, or learns that somebody has it.
        assert tasks_of(by_name.claim((tasks[1], 1)).assignments) == tasks[1:2]
        assert [a.status for a in by_name.claim((tasks[0], 1)).answers] == ["already_handed_off"]
        assert tasks_of(worker.acquire(2)) == tasks[2:]
        assert_audit_clean()

    def test_a_retry_after_it_is_integrated(self):
        queue = route()
        task = submit_task()
        worker = Worker()
        [assignment] = worker.claim((task, 1)).assignments
        give_back(queue.id, operator(), using=USING)
        worker.settle(assignment, Outcome.INTERRUPTED)
        intent = intent_of(task)
        assert (intent.publication_id, intent.next_publish_at) == (None, None)
        assert tasks_of(worker.acquire(2)) == [task]

    def test_a_queue_that_is_integrated_or_unknown_is_answered(self):
        queue = route()
        give_back(queue.id, operator(), using=USING)
        assert give_back(queue.id, operator(), using=USING) == {str(queue.id): "already"}
        assert give_back(0, operator(), using=USING) == {"0": "not_found"}

    def test_a_repeat_gets_the_same_answer_though_the_queue_was_routed_again(self):
        queue = route()
        by = operator()
        first = give_back(queue.id, by, using=USING)
        route()
        assert give_back(queue.id, by, using=USING) == first == {str(queue.id): "integrated"}
        assert routes() == {"default": "there"}


def submit_here(*queues: str) -> list[UUID]:
    return [handle.id for handle in submit_many([NewTask(program=PROGRAM, version=VERSION, queue=q) for q in queues])]


@pytest.mark.django_db(transaction=True)
class TestAgainstWhoeverMakesWork:
    """No intent without a publication is left in an external queue, whoever came first."""

    @pytest.fixture
    def failed(self) -> UUID:
        """A task that has failed, in the queue default."""
        task = submit_task()
        worker = Worker()
        worker.settle(worker.acquire_one(), Outcome.FAILED)
        return task

    @pytest.fixture(params=["submit", "submit with a key", "requeue", "copy"])
    def make_work(self, request: pytest.FixtureRequest, failed: UUID) -> Callable[[], object]:
        """One of the ways in which work is made."""
        ways: dict[str, Callable[[], object]] = {
            "submit": submit_task,
            "submit with a key": partial(submit_task, idempotency_key="k"),
            "requeue": lambda: requeue({failed: 1}, operator(), using=USING),
            "copy": lambda: requeue_as_copy([failed], operator(), using=USING),
        }
        return ways[request.param]

    def test_what_began_before_holds_the_queue_and_then_refuses_the_route(self, make_work):
        with Rival() as rival:
            with rival.transaction():
                rival.do(make_work)
                with pytest.raises(Busy):
                    route()
            with pytest.raises(Conflict, match="queued"):
                route()
        assert routes() == {"default": None}
        assert DeliveryIntent.objects.get().publication_id is None
        assert_audit_clean()

    def test_what_was_taken_back_does_not_hinder(self, make_work):
        with Rival() as rival, pytest.raises(ZeroDivisionError), rival.transaction():
            rival.do(make_work)
            raise ZeroDivisionError
        route()

    def test_what_begins_meanwhile_waits_and_is_published(self, make_work):
        with Rival() as rival:
            with transaction.atomic():
                queue = route()
                making = rival.begin(make_work)
                rival.wait_until_blocked(making)
            making.result(20)
        intent = DeliveryIntent.objects.get()
        assert intent.publication_id is not None and intent.next_publish_at is not None
        assert len(PublisherActor(queue).lease()) == 1
        assert_audit_clean()

    def test_what_begins_while_a_route_is_made_in_vain_is_integrated(self, make_work):
        with Rival() as rival:
            with transaction.atomic():
                route()
                making = rival.begin(make_work)
                rival.wait_until_blocked(making)
                transaction.set_rollback(True)
            making.result(20)
        assert DeliveryIntent.objects.get().publication_id is None
        assert_audit_clean()

    def test_an_attempt_that_is_retried_is_seen_at_every_moment(self):
        """As a lease, or as the next intent: never as neither."""
        task = submit_task()
        worker = Worker()
        assignment = worker.acquire_one()
        stops = 0
        with Rival() as rival:
            for stop in range(1, 20):
                gate = Gate(stop)
                routing = rival.begin(partial(self._routed, gate))
                assert gate.arrived.wait(20)
                if gate.is_held:
                    stops += 1
                    worker.settle(assignment, Outcome.INTERRUPTED)
                    gate.let_go(broken=False)
                with pytest.raises(Conflict):
                    routing.result(20)
                if not gate.is_held:
                    break
                assignment = worker.acquire_one()
        assert stops >= 4
        assert state_of(task) == "active"
        assert_audit_clean()

    @staticmethod
    def _routed(gate: Gate) -> None:
        try:
            with connections[USING].execute_wrapper(gate):
                route()
        finally:
            gate.arrived.set()

    def test_a_route_that_stands_is_not_locked(self):
        queue = route()
        with Rival() as rival, rival.transaction():
            rival.do(submit_task)
            assert route() == queue

    def test_a_submission_to_several_queues_does_not_lose_against_an_activation(self, settings):
        # An activation that waits would do so for longer than this test may take.
        settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 3600}
        names = ["a", "b"]
        for name in names:
            Queue.objects.create(tenant="default", namespace="default", name=name)
        with Rival() as rival, rival.transaction():
            # It holds the queue that the activation would lock second.
            rival.do(partial(submit_here, "b"))
            with pytest.raises(Busy):
                activated(a="here", b="there")
            rival.do(partial(submit_here, "a"))
        assert routes() == {"a": None, "b": None}
        assert_audit_clean()

    def test_a_queue_is_given_back_though_somebody_submits_to_it(self):
        queue = route()
        with Rival() as rival, rival.transaction():
            task = rival.do(submit_task)
            assert give_back(queue.id, operator(), using=USING) == {str(queue.id): "integrated"}
        assert tasks_of(Worker().acquire(2)) == [task]
        assert_audit_clean()


@pytest.mark.django_db(transaction=True)
class TestTwoActivations:
    @pytest.fixture(autouse=True)
    def queues(self) -> None:
        for name in ("a", "b"):
            Queue.objects.create(tenant="default", namespace="default", name=name)

    def test_of_one_queue_the_second_is_busy_and_then_finds_the_route(self):
        with Rival() as rival:
            with rival.transaction():
                ids = rival.do(partial(activated, a="here"))
                with pytest.raises(Busy):
                    activated(a="here")
            assert activated(a="here") == ids
        assert OperatorAction.objects.count() == 1

    def test_of_one_queue_to_two_destinations_the_second_is_refused(self):
        with Rival() as rival:
            with rival.transaction():
                rival.do(partial(activated, a="here"))
                with pytest.raises(Busy):
                    activated(a="there")
            with pytest.raises(Conflict, match="is routed to here, not to there"):
                activated(a="there")

    def test_of_one_destination_for_two_queues_the_second_is_refused(self):
        with Rival() as rival:
            block = rival.transaction()
            block.__enter__()
            rival.do(partial(activated, a="here"))
            second = threading.Event()

            def activate_b() -> str:
                try:
                    activated(b="here")
                except (Conflict, Busy) as error:
                    return type(error).__name__
                finally:
                    second.set()
                return "routed"

            with Rival() as other:
                future = other.begin(activate_b)
                other.wait_until_blocked(future)
                block.__exit__(None, None, None)
                assert future.result(20) == "Conflict"
        assert routes() == {"a": "here", "b": None}

    def test_an_action_id_that_both_send_is_carried_out_once(self):
        by = Operator(action_id=operator().action_id, name="op", reason="both")
        with Rival() as rival:
            with rival.transaction():
                rival.do(lambda: activate({named("a"): "here"}, by, using=USING))
            assert activate({named("a"): "here"}, by, using=USING).keys() == {named("a")}
        assert OperatorAction.objects.count() == 1
