"""The statements that only the task service sends: what each finds and writes."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from ledgence import sql
from ledgence.models import Queue
from ledgence.operations.cancel import cancel
from ledgence.operations.queues import pause
from ledgence.operations.sessions import close_session
from ledgence_worker.protocol import CatalogueEntry
from tests.ledger.actors import USING, Worker, execute, operator, submit_task
from tests.ledger.publishers import route
from tests.ledger.rivals import Rival

pytestmark = pytest.mark.django_db

OTHER = (CatalogueEntry(name="tests.other", version="1", entry_point="tests.programs:other"),)


# find_sessions_to_wake


def woken(*workers: Worker) -> list[Worker]:
    parameters = {"sessions": [worker.session_id for worker in workers]}
    found = [row[0] for row in sql.run("find_sessions_to_wake", USING, parameters)]
    assert len(found) == len(set(found))
    return [worker for worker in workers if worker.session_id in found]


def test_sessions_with_due_work_are_woken(db: None) -> None:
    mine, other, every, without = Worker(queues=["a"]), Worker(queues=["b"]), Worker(), Worker(exclude_queues=["a"])
    assert woken(mine, other, every, without) == []
    submit_task(queue="a")
    assert woken(mine, other, every, without) == [mine, every]
    submit_task(queue="b")
    assert woken(mine, other, every, without) == [mine, other, every, without]
    assert woken() == []


def test_nobody_is_woken_for_work_that_is_not_due_or_taken(db: None) -> None:
    worker = Worker()
    submit_task(run_after=timezone.now() + timedelta(hours=1), priority=100)
    assert woken(worker) == []
    submit_task(priority=-100)
    assert woken(worker) == [worker]
    worker.acquire_one()
    assert woken(worker) == []


def test_nobody_is_woken_for_foreign_programs_tenants_and_namespaces(db: None) -> None:
    workers = [Worker(catalogue=OTHER), Worker(tenant="x"), Worker(namespace="x"), Worker(catalogue=())]
    submit_task()
    assert woken(*workers) == []
    submit_task(program="tests.other")
    assert woken(*workers) == workers[:1]


def test_work_behind_foreign_work_of_its_level_is_found(db: None) -> None:
    mine, other = Worker(), Worker(catalogue=OTHER)
    submit_task(priority=5)
    submit_task(program="tests.other", priority=5)
    submit_task(priority=7)
    assert woken(mine, other) == [mine, other]


def test_nobody_is_woken_for_paused_or_external_queues(db: None) -> None:
    worker = Worker()
    submit_task(queue="a")
    submit_task(queue="b")
    pause([Queue.objects.get(name="a").pk], operator(), using=USING)
    Queue.objects.filter(name="b").update(mode="external", destination="x")
    assert woken(worker) == []


def test_sessions_that_are_over_are_woken_and_unknown_ones_are_not(db: None) -> None:
    closed, expired, unknown = Worker(), Worker(), Worker()
    close_session(closed.session_id, using=USING)
    execute("update ledgence_workersession set expires_at = now() where id = %s", [expired.session_id])
    unknown.session_id = uuid4()
    assert woken(closed, expired, unknown) == [closed, expired]


# record_empty_answers


def record(*asked: tuple[UUID, int, int]) -> set[tuple[UUID, int]]:
    columns = {"sessions": [a[0] for a in asked], "channels": [a[1] for a in asked], "sequences": [a[2] for a in asked]}
    return set(sql.run("record_empty_answers", USING, columns))


def channel_of(worker: Worker) -> tuple[int, list[UUID], list[int]]:
    columns = "sequence, tasks, attempts"
    [row] = execute(f"select {columns} from ledgence_channel where session_id = %s", [worker.session_id])  # noqa: S608
    return row[0], row[1], row[2]


def test_the_next_command_of_each_channel_is_recorded_as_empty(db: None) -> None:
    workers = [Worker(), Worker(), Worker()]
    submit_task()
    for worker in workers:
        worker.acquire()
    before = execute("select max(answered_at) from ledgence_channel")[0][0]
    asked = [(worker.session_id, 0, 2) for worker in workers]
    assert record(*asked) == {(session, channel) for session, channel, _ in asked}
    assert [channel_of(worker) for worker in workers] == [(2, [], [])] * 3
    assert execute("select min(answered_at) from ledgence_channel")[0][0] > before
    # A repeat of it is answered with nothing, and the one after it goes on.
    assert record(*asked) == set()
    reply = workers[0].send(2)
    assert reply is not None and reply.assignments == ()
    submit_task()
    workers[0].sequence = 2
    assert len(workers[0].acquire()) == 1


@pytest.mark.parametrize("sequence", [0, 1, 3])
def test_any_other_sequence_is_not_recorded(sequence: int, db: None) -> None:
    worker = Worker()
    task = submit_task()
    worker.acquire()
    assert record((worker.session_id, 0, sequence)) == set()
    assert channel_of(worker) == (1, [task], [1])


def test_neither_an_unknown_channel_nor_a_session_that_is_over_is_recorded(db: None) -> None:
    worker, closed, expired = Worker(), Worker(), Worker()
    for one in (worker, closed, expired):
        one.acquire()
    close_session(closed.session_id, using=USING)
    execute("update ledgence_workersession set expires_at = clock_timestamp() where id = %s", [expired.session_id])
    asked = [(closed.session_id, 0, 2), (expired.session_id, 0, 2), (worker.session_id, 1, 1), (uuid4(), 0, 1)]
    assert record(*asked) == set()
    assert record((worker.session_id, 0, 2), *asked) == {(worker.session_id, 0)}


def test_nothing_is_recorded_for_a_session_of_external_queues_alone(db: None) -> None:
    external, both, every = Worker(queues=["broker"]), Worker(queues=["broker", "plain"]), Worker()
    for one in (external, both, every):
        one.acquire()
    route("broker")
    asked = [(worker.session_id, 0, 2) for worker in (external, both, every)]
    assert record(*asked) == {(both.session_id, 0), (every.session_id, 0)}


@pytest.mark.django_db(transaction=True)
def test_a_channel_that_a_command_holds_is_left_to_it() -> None:
    held, free = Worker(), Worker()
    for worker in (held, free):
        worker.acquire()
    lock = "select 1 from ledgence_channel where session_id = %s for update"
    with Rival() as rival, rival.transaction():
        rival.execute(lock, [held.session_id])
        assert record((held.session_id, 0, 2), (free.session_id, 0, 2)) == {(free.session_id, 0)}
    assert channel_of(held)[0] == 1


# find_ended_tasks


def test_tasks_that_have_ended_or_are_gone_are_found(db: None) -> None:
    worker = Worker()
    first, active = submit_task(priority=2), submit_task(priority=1)
    worker.settle(worker.acquire_one())
    assert worker.acquire_one().task_id == active
    queued, cancelled, unknown = submit_task(), submit_task(), uuid4()
    cancel([cancelled], using=USING)
    rows = sql.run("find_ended_tasks", USING, {"tasks": [first, active, queued, cancelled, unknown]})
    assert {row[0] for row in rows} == {first, cancelled, unknown}
    assert sql.run("find_ended_tasks", USING, {"tasks": []}) == []
