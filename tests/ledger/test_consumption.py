"""Work that comes through a broker runs once per generation, whatever the broker and lost replies do. On the ledger."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from ledgence.models import Attempt, DeliveryIntent, QuarantinedMessage, Queue, WorkerSession
from ledgence.operations.cancel import cancel
from ledgence.operations.queues import pause, resume
from ledgence.operations.reschedule import move
from ledgence.operations.routes import give_back
from ledgence.service import DatabaseTaskService
from ledgence.testing.delivery import Faults, MemoryBroker
from ledgence_worker.protocol import Outcome
from ledgence_worker.task_service import TaskService
from tests.faults.waiting import wait_until
from tests.ledger.actors import USING, Worker, make_due, operator, outcomes_of, state_of, submit_task, submit_tasks
from tests.ledger.consuming import Consumption
from tests.ledger.publishers import events_of, make_publications_due, route
from tests.worker.fakes import end_of, make_assignment, succeed
from tests.worker.routed import QUEUE, SpyQueue, body_of, make_route

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def make_service() -> Callable[[], TaskService]:
    return lambda: DatabaseTaskService(USING)


@pytest.fixture
def scene(transactional_db: None, make_service: Callable[[], TaskService]) -> Consumption:
    return Consumption(make_service)


def _body(task: UUID, generation: int = 1, **changes: object) -> str:
    return body_of(make_assignment(queue=QUEUE), task=task, generation=generation, **changes)


def test_everything_that_is_announced_runs_once(scene: Consumption):
    tasks = scene.submit(50)
    with scene.publishing():
        assert scene.run(lambda: scene.await_end(*tasks)) == 0
    scene.assert_each_ran_once(*tasks)
    assert scene.left == 0
    assert WorkerSession.objects.get().closed_at is not None
    # One command claims and authorizes; nothing is acquired.
    assert not {"acquire"} & set(scene.service.calls)
    assert not Attempt.objects.filter(authorized_at__isnull=True).exists()


@pytest.mark.parametrize("seed", range(3))
def test_a_broker_that_loses_repeats_reorders_and_partly_fails_costs_nothing(scene: Consumption, seed: int):
    tasks = scene.submit(60)
    scene.broker.random.seed(seed)
    faults = Faults(duplicated=0.3, reordered=0.5, lost=0.2, failed=0.2, uncertain=0.2, receipt_failed=0.3)

    def play() -> None:
        def look() -> bool:
            # As when repair times and visibilities pass.
            scene.broker.end_visibility()
            make_publications_due()
            return scene.ended(*tasks)

        wait_until(look, "the end of all tasks")
        scene.broker.faults = Faults()
        scene.await_no_messages()

    with scene.publishing(faults):
        assert scene.run(play) == 0
    scene.assert_each_ran_once(*tasks)


def test_messages_that_are_all_lost_are_announced_again(scene: Consumption):
    tasks = scene.submit(10)
    with scene.publishing():
        scene.await_messages(10)
        scene.broker.lose_all()
        make_publications_due()
        assert scene.run(lambda: scene.await_end(*tasks)) == 0
    scene.assert_each_ran_once(*tasks)
    assert [kind for kind, _, _ in events_of(tasks[0])] == ["repair"]


@pytest.mark.parametrize("call", ["claim", "settle"])
def test_lost_replies_lose_and_double_nothing(scene: Consumption, call: str):
    tasks = scene.submit(20)

    def play() -> None:
        scene.service.lost[call] = 3
        with scene.publishing():
            scene.await_end(*tasks)

    assert scene.run(play) == 0
    assert scene.service.lost[call] == 0
    scene.assert_each_ran_once(*tasks)
    assert scene.left == 0


def test_nothing_is_acknowledged_before_its_claim_is_committed(scene: Consumption):
    [task] = scene.submit(1)
    seen: list[tuple[bool, bool]] = []

    def look() -> None:
        attempts = Attempt.objects.filter(task_id=task, claimed_at__isnull=False)
        seen.append((attempts.exists(), DeliveryIntent.objects.exists()))

    scene.look_before_acknowledging(look)
    with scene.publishing():
        assert scene.run(lambda: scene.await_end(task)) == 0
    assert seen == [(True, False)]


def test_messages_that_come_five_times_to_rivals_run_once(scene: Consumption):
    tasks = scene.submit(20)
    with scene.publishing():
        scene.await_messages(20)
    bodies = [held.body for held in scene.broker.held.waiting]
    scene.broker.put(*bodies * 4)
    rival = Worker(queues=[QUEUE])
    taken: list[UUID] = []

    def compete() -> None:
        for task in tasks:
            reply = rival.claim((task, 1))
            taken.extend(assignment.task_id for assignment in reply.assignments)
            for assignment in reply.assignments:
                rival.settle(assignment)

    def play() -> None:
        compete()
        scene.await_end(*tasks)
        scene.await_no_messages()

    assert scene.run(play) == 0
    assert Attempt.objects.count() == 20
    assert len(scene.pool.started) + len(taken) == 20


def test_a_message_of_an_earlier_generation_runs_nothing(scene: Consumption):
    task = submit_task(queue=QUEUE, retry_on=[Outcome.CRASHED])
    crashes = [True]
    scene.pool.program = lambda a: end_of(a, Outcome.CRASHED) if crashes and crashes.pop() else succeed(a)

    def play() -> None:
        wait_until(lambda: outcomes_of(task) == ["crashed"], "a crash")
        scene.broker.put(*[held.body for held in stale] * 3)
        make_due(task)
        make_publications_due(task)
        scene.await_end(task)
        scene.await_no_messages()

    with scene.publishing():
        scene.await_messages(1)
        stale = list(scene.broker.held.waiting)
        assert scene.run(play) == 0
    assert outcomes_of(task) == ["crashed", "succeeded"]


def test_work_that_is_cancelled_before_its_message_comes_runs_never(scene: Consumption):
    [task] = scene.submit(1)
    with scene.publishing():
        scene.await_messages(1)
    cancel([task], using=USING)
    assert scene.run(scene.await_no_messages) == 0
    assert (state_of(task), scene.pool.started) == ("cancelled", [])
    assert not QuarantinedMessage.objects.exists()


def test_work_of_a_paused_queue_is_published_again_when_it_is_resumed(scene: Consumption):
    [task] = scene.submit(1)
    ids = [scene.queue.id]

    def play() -> None:
        wait_until(lambda: "deferred" in [kind for kind, _, _ in events_of(task)], "a deferral")
        wait_until(lambda: scene.left == 0, "its acknowledgement")
        assert scene.pool.started == []
        resume(ids, operator(), using=USING)
        scene.await_end(task)

    with scene.publishing():
        scene.await_messages(1)
        pause(ids, operator(), using=USING)
        assert scene.run(play) == 0
    assert [kind for kind, _, _ in events_of(task)] == ["deferred"]
    assert scene.left == 0


def test_work_for_later_is_not_run_before_its_time(scene: Consumption):
    task = submit_task(queue=QUEUE, run_after=timezone.now() + timedelta(hours=1))
    row = DeliveryIntent.objects.select_related("task").get(pk=task)
    assert row.publication_id is not None
    body = _body(task)
    scene.broker.put(body)
    assert scene.run(scene.await_no_messages) == 0
    assert (state_of(task), scene.pool.started) == ("queued", [])


def test_what_is_no_work_of_the_queue_is_recorded_before_it_is_removed(scene: Consumption):
    [task], far = scene.submit(1), uuid4()
    scene.broker.put("\0rubbish", _body(far), _body(task, 7), _body(task, tenant="other"), "x" * 20_000)
    recorded: list[int] = []
    scene.look_before_acknowledging(lambda: recorded.append(QuarantinedMessage.objects.count()))

    def play() -> None:
        scene.await_no_messages()
        with scene.publishing():
            scene.await_end(task)

    assert scene.run(play) == 0
    rows = QuarantinedMessage.objects.order_by("message_id")
    assert [row.reason for row in rows] == ["malformed", "not_found", "not_found", "foreign", "oversized"]
    assert rows[0].body == "\\0rubbish"
    assert recorded[0] >= 1


def test_rubbish_that_comes_again_is_recorded_once(scene: Consumption):
    scene.broker.refuses_receipts = True
    scene.broker.put("rubbish")

    def play() -> None:
        wait_until(QuarantinedMessage.objects.exists, "the record")
        scene.broker.end_visibility()
        scene.await_calls("quarantine", 2)
        scene.broker.refuses_receipts = False
        scene.await_no_messages()

    assert scene.run(play) == 0
    assert QuarantinedMessage.objects.count() == 1


def test_acknowledging_that_fails_for_ever_runs_nothing_twice(scene: Consumption):
    tasks = scene.submit(10)
    scene.broker.refuses_receipts = True

    def play() -> None:
        scene.await_end(*tasks)
        for _ in range(3):
            claims = scene.service.calls.count("claim") + 1
            scene.broker.end_visibility()
            scene.await_calls("claim", claims)

    with scene.publishing():
        assert scene.run(play) == 0
    scene.assert_each_ran_once(*tasks)
    assert scene.left == 10


def test_a_queue_that_is_given_back_meanwhile_is_consumed_to_its_end(scene: Consumption):
    tasks = scene.submit(10)
    with scene.publishing():
        scene.await_messages(10)
    give_back(scene.queue.id, operator(), using=USING)
    assert scene.run(lambda: scene.await_end(*tasks)) == 0
    assert scene.left == 0


def test_work_that_was_moved_to_another_queue_of_the_worker_runs_by_the_old_message(scene: Consumption):
    tasks = scene.submit(3)
    with scene.publishing():
        scene.await_messages(3)
    route("near", "near")
    scene.routes.append(make_route(SpyQueue(MemoryBroker(address="near")), queue="near"))
    move(tasks, operator(), queue="near", using=USING)
    assert scene.run(lambda: scene.await_end(*tasks), queues=(QUEUE, "near")) == 0
    assert (len(set(scene.pool.started)), Attempt.objects.count(), scene.left) == (3, 3, 0)


def test_a_program_that_the_worker_does_not_know_is_left_to_others(scene: Consumption):
    task = submit_task(queue=QUEUE, version="2")

    def play() -> None:
        wait_until(lambda: "deferred" in [kind for kind, _, _ in events_of(task)], "a deferral")

    with scene.publishing():
        assert scene.run(play) == 0
    assert (state_of(task), scene.pool.started) == ("queued", [])


def test_a_worker_that_drains_ends_when_nothing_is_left(scene: Consumption):
    tasks = scene.submit(20)
    with scene.publishing():
        assert scene.run(lambda: None, drain=True) == 0
    scene.assert_each_ran_once(*tasks)


def test_integrated_and_external_work_run_side_by_side(scene: Consumption):
    far, near = scene.submit(100), submit_tasks(100, queue="near")
    with scene.publishing():
        assert scene.run(lambda: scene.await_end(*far, *near), queues=()) == 0
    assert Attempt.objects.filter(task_id__in=near, delivery_mode="integrated").count() == 100
    assert Attempt.objects.filter(task_id__in=far, delivery_mode="external").count() == 100
    assert "acquire" in scene.service.calls


def test_a_stop_gives_back_what_comes_after_it(scene: Consumption):
    [task] = scene.submit(1)

    def receive():
        wait_until(lambda: scene.is_stopping, "the stop")
        return scene.spy.inner.receive(4, 0)

    scene.spy.receives.append(receive)
    with scene.publishing():
        scene.await_messages(1)
        assert scene.run(lambda: wait_until(lambda: scene.spy.counts, "a receive")) == 0
    assert scene.broker.waiting == 1
    assert (state_of(task), Attempt.objects.count()) == ("queued", 0)


def test_a_worker_that_names_an_external_queue_needs_its_route(scene: Consumption, caplog: pytest.LogCaptureFixture):
    scene.routes = []
    assert scene.run(lambda: None, drain=True) == 2
    assert "--delivery-config" in caplog.text
    assert WorkerSession.objects.get().closed_at is not None


def test_a_route_of_another_tenant_is_refused(scene: Consumption, caplog: pytest.LogCaptureFixture):
    scene.routes = [make_route(scene.spy, tenant="other")]
    assert scene.run(lambda: None, drain=True) == 2
    assert "other/default" in caplog.text


def test_a_route_to_another_physical_queue_than_the_ledgers_is_refused(
    scene: Consumption, caplog: pytest.LogCaptureFixture
):
    """What waits there may be another installation's: nothing of it is recorded and removed."""
    elsewhere = MemoryBroker(address="elsewhere")
    elsewhere.put(_body(uuid4()))
    scene.routes = [make_route(SpyQueue(elsewhere))]
    assert scene.run(lambda: None) == 2
    assert "comes through there, and this worker's route leads to elsewhere" in caplog.text
    assert (elsewhere.waiting, QuarantinedMessage.objects.count()) == (1, 0)


def test_a_queue_that_was_never_used_keeps_its_rubbish(scene: Consumption):
    """There is nothing to record it under; the worker goes on."""
    Queue.objects.all().delete()
    scene.broker.put("rubbish")

    def play() -> None:
        scene.await_calls("quarantine", 1)

    assert scene.run(play) == 0
    assert scene.left == 1
