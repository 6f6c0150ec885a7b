"""What is found of tasks in each state, by operations that brought them there, in a bounded number of statements."""

from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledgence.explanation import Explanation, explain, find_facts
from ledgence.explanation.facts import UNTAKEN_AFTER
from ledgence.models import DeliveryEvent, DeliveryIntent, Queue, State
from ledgence.operations.cancel import cancel
from ledgence.operations.operate import requeue
from ledgence.operations.queues import pause
from ledgence.operations.routes import QueueName, activate
from ledgence.operations.sessions import close_session
from ledgence_worker.errors import NotFound
from ledgence_worker.protocol import CatalogueEntry, Outcome
from tests.ledger.actors import PROGRAM, USING, Worker, execute, expire_leases, operator, raised, submit_task

pytestmark = pytest.mark.django_db

STATEMENTS_MAX = 4


def explained(task: UUID) -> Explanation:
    """Explain a task, in no more statements than are promised."""
    with CaptureQueriesContext(connection) as captured:
        explanation = explain(task, using=USING)
    assert len(captured) <= STATEMENTS_MAX, [query["sql"] for query in captured]
    return explanation


def codes(task: UUID) -> list[str]:
    return [line.code.value for line in explained(task).lines]


def text_of(task: UUID, code: str) -> str:
    [text] = [f"{line.text} {line.advice}" for line in explained(task).lines if line.code == code]
    return text


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(NotFound, match="does not exist"):
        explain(uuid4(), using=USING)


def test_terminal_tasks(worker: Worker) -> None:
    succeeded, failed, cancelled = submit_task(priority=3), submit_task(priority=2), submit_task()
    worker.settle(worker.acquire_one())
    worker.settle(worker.acquire_one(), Outcome.FAILED, error=raised("shop.Declined"))
    cancel([cancelled], using=USING)
    assert [codes(task) for task in (succeeded, failed, cancelled)] == [
        ["succeeded"],
        ["failed", "reported"],
        ["cancelled"],
    ]
    assert "failed with Declined" in text_of(failed, "failed")
    assert (explained(failed).revision, explained(failed).state) == (1, State.FAILED)


def test_work_without_a_worker_and_with_one() -> None:
    task = submit_task()
    assert codes(task) == ["no_session"]
    Worker(queues=("other",))
    assert "1 worker session is open, and does not serve queue default." in text_of(task, "no_session")
    outdated = (CatalogueEntry(name=PROGRAM, version="0", entry_point="tests.programs:old"),)
    Worker(catalogue=outdated)
    assert "Of this program they have: 0." in text_of(task, "no_program")
    able = Worker()
    assert codes(task) == ["ready"]
    close_session(able.session_id, using=USING)
    assert codes(task) == ["no_program"]


def test_a_foreign_tenants_workers_are_nobodys_help() -> None:
    task = submit_task()
    Worker(tenant="other")
    assert codes(task) == ["no_session"]


def test_silent_and_busy_workers() -> None:
    worker = Worker()
    tasks = [submit_task() for _ in range(9)]
    worker.acquire(8)
    waiting = tasks[-1]
    assert codes(waiting) == ["all_busy"]
    assert f"All 8 slots of the 1 worker session that could run it are busy: 8 × {PROGRAM} 1." in text_of(
        waiting, "all_busy"
    )
    execute("update ledgence_workersession set extended_at = now() - interval '31 s'")
    assert codes(waiting) == ["all_silent"]
    assert codes(tasks[0]) == ["held", "holder_silent", "lease_live", "time_out"]


def test_work_ahead_is_that_of_higher_priority_and_of_earlier_time_which_is_due(worker: Worker) -> None:
    task = submit_task()
    submit_task(priority=1)
    submit_task()
    submit_task(priority=-1)
    submit_task(queue="other", priority=9)
    later = submit_task(priority=7)
    execute("update ledgence_deliveryintent set available_at = now() + interval '1 h' where task_id = %s", [later])
    facts = find_facts(task, using=USING)
    assert facts.ahead == 1
    execute(
        "update ledgence_deliveryintent set available_at = available_at + interval '1 us' where task_id = %s", [task]
    )
    assert codes(task) == ["ahead"]
    assert find_facts(later, using=USING).ahead is None


def test_work_ahead_is_counted_to_the_cap(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgence.explanation.finding.COUNT_CAP", 5)
    for priority in (1, 0):
        for _ in range(4):
            submit_task(priority=priority)
    assert find_facts(submit_task(), using=USING).ahead == 6


def test_due_work_that_nobody_takes(worker: Worker) -> None:
    task = submit_task()
    execute("update ledgence_deliveryintent set available_at = now() - %s", [UNTAKEN_AFTER * 2])
    assert codes(task) == ["untaken"]


def test_a_paused_queue_and_a_retry(worker: Worker) -> None:
    task = submit_task()
    worker.settle(worker.acquire_one(), Outcome.CRASHED)
    pause([Queue.objects.get().pk], operator("mail server moves"), using=USING)
    assert codes(task) == ["not_due", "retry", "paused"]
    assert "by op" in text_of(task, "paused") and "“mail server moves”" in text_of(task, "paused")
    assert "attempt 1 crashed" in text_of(task, "retry")


def test_attempts_that_end_alike_are_counted(worker: Worker) -> None:
    task = submit_task(max_attempts=4)
    for outcome in (Outcome.FAILED, Outcome.CRASHED, Outcome.CRASHED, Outcome.CRASHED):
        execute("update ledgence_deliveryintent set available_at = now() where task_id = %s", [task])
        if outcome is Outcome.CRASHED:
            worker.settle(worker.acquire_one(), outcome, exit_status=-9, output="x")
        else:
            worker.settle(worker.acquire_one(), outcome, error=raised("builtins.OSError"))
            execute("update ledgence_deliveryintent set charged = 0 where task_id = %s", [task])
            if not find_facts(task, using=USING).intent:
                requeue({task: 1}, operator(), using=USING)
    assert find_facts(task, using=USING).alike == 3
    assert "The last 3 of 4 attempts ended the same way: crashed with exit status -9 (SIGKILL)." in text_of(
        task, "ended_alike"
    )
    assert "(dmesg, journalctl -k) on localhost." in text_of(task, "reported")


def test_a_requeued_task(worker: Worker) -> None:
    task = submit_task(max_attempts=1)
    worker.settle(worker.acquire_one(), Outcome.CRASHED)
    requeue({task: 1}, operator(), using=USING)
    assert codes(task) == ["requeued", "ready"]


def test_an_active_task(worker: Worker) -> None:
    task = submit_task()
    worker.acquire_one()
    assert codes(task) == ["held", "lease_live", "time_out"]
    assert "tests (localhost:1)" in text_of(task, "held")
    cancel([task], using=USING)
    assert codes(task) == ["held", "lease_live", "cancel_requested"]
    expire_leases(task)
    assert codes(task) == ["lease_expired", "no_housekeeping", "held", "cancel_requested"]
    execute("insert into ledgence_housekeepingturn (id, turned_at) values (1, now())")
    assert codes(task) == ["lease_expired", "held", "cancel_requested"]
    close_session(worker.session_id, using=USING)
    assert "holder_ended" in codes(task)


@pytest.fixture
def routed() -> Queue:
    """An external queue."""
    name = QueueName(tenant="default", namespace="default", queue="mail")
    activate({name: "arn:mail"}, operator(), using=USING)
    return Queue.objects.get(name="mail")


def publish(task: UUID, **columns: str) -> None:
    """Set columns of an intent to expressions, as a publisher would."""
    settings = ", ".join(f"{column} = {value}" for column, value in columns.items())
    execute(f"update ledgence_deliveryintent set {settings} where task_id = %s", [task])  # noqa: S608


def record_publisher(queue: Queue, **columns: str) -> None:
    known = {"turned_at": "now()", "failure": "''"} | columns
    execute(
        "insert into ledgence_publisher (id, queue_id, host, pid, version, started_at, turned_at, failure) "  # noqa: S608
        f"values (gen_random_uuid(), %s, 'p1', 1, '0', now(), {known['turned_at']}, {known['failure']})",
        [queue.pk],
    )


def test_work_of_an_external_queue_from_its_submission_to_its_announcement(routed: Queue) -> None:
    Worker()
    task = submit_task(queue="mail")
    assert codes(task) == ["no_publisher", "unannounced"]
    record_publisher(routed, failure="'broker away'")
    assert codes(task) == ["publisher_fails", "unannounced"]
    record_publisher(routed, failure="'also away'")
    record_publisher(routed, turned_at="now() - interval '61 s'")
    assert codes(task) == ["publisher_fails", "unannounced"]
    record_publisher(routed, turned_at="now() - interval '50 s'")
    publish(task, publish_token="gen_random_uuid()", next_publish_at="now() + interval '30 s'", publications="1")
    assert codes(task) == ["being_sent"]
    publish(task, publish_token="null", refusals="2")
    DeliveryEvent.objects.create(
        task_id=task, generation=1, kind="refused", epoch=1, happened_at="2026-01-01T00:00Z", detail={"reason": "no"}
    )
    assert "refused it 2 times in a row (no); it is sent next in" in text_of(task, "refused")
    publish(task, refusals="0")
    DeliveryEvent.objects.update(kind="uncertain")
    assert codes(task) == ["unconfirmed"]
    publish(task, confirmed_at="now()", first_published_at="now()", last_published_at="now()")
    assert codes(task) == ["announced"]
    assert "receives from arn:mail" in text_of(task, "announced")


def test_the_newest_event_of_the_queued_generation_counts(routed: Queue) -> None:
    task = submit_task(queue="mail")
    for second, (generation, kind) in enumerate([(1, "failed"), (1, "deferred"), (2, "refused")]):
        DeliveryEvent.objects.create(
            task_id=task, generation=generation, kind=kind, epoch=1, happened_at=f"2026-01-01T00:00:0{second}Z"
        )
    event = find_facts(task, using=USING).event
    assert event is not None and event.kind == "deferred"
    assert codes(task)[-1] == "deferred"


def test_a_task_that_is_nowhere(worker: Worker) -> None:
    task = submit_task()
    DeliveryIntent.objects.all().delete()
    assert codes(task) == ["nowhere"]
