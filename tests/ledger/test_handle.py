"""The handle of a task: its state, attempts and result, waiting, and what an application may do to it."""

import asyncio
import threading
import time
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.db import connections, transaction

import ledgence
from ledgence import InvalidInput, NotFinished, NotFound, TaskFailed
from ledgence.models import OperatorAction, State
from ledgence.operations.expire import expire
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import (
    PROGRAM,
    USING,
    VERSION,
    Worker,
    expire_leases,
    make_due,
    raised,
    submit_task,
)
from tests.ledger.rivals import DEADLINE_SECONDS, Rival


def submit(**options: Any) -> ledgence.TaskHandle:
    handle: ledgence.TaskHandle = ledgence.submit(PROGRAM, None, version=VERSION, **options)
    return handle


def fail(worker: Worker, outcome: Outcome = Outcome.FAILED, **report) -> ledgence.TaskHandle:
    handle = submit()
    worker.settle(worker.acquire_one(), outcome, **report)
    return handle


def test_a_handle_tells_what_the_rows_say_each_time_it_is_asked(worker: Worker):
    handle = submit()
    states = [handle.state]
    assert handle.attempts == []
    assignment = worker.acquire_one()
    states.append(handle.state)
    worker.settle(assignment, Outcome.CRASHED)
    states.append(handle.state)
    make_due()
    worker.settle(worker.acquire_one(), result='{"n":[1,2.5,null]}')
    states.append(handle.state)
    assert states == [State.QUEUED, State.ACTIVE, State.QUEUED, State.SUCCEEDED]
    assert [(attempt.number, attempt.outcome) for attempt in handle.attempts] == [(1, "crashed"), (2, "succeeded")]
    assert handle.result() == {"n": [1, 2.5, None]}


def test_a_task_is_found_by_its_id_in_either_form(db):
    task = submit_task()
    assert ledgence.get(task) == ledgence.get(str(task))
    assert ledgence.get(task).id == task


@pytest.mark.parametrize("value", ["", "7", "x" * 10_000, "\0", "\ud800"])
def test_what_is_no_id_is_invalid(db, value):
    with pytest.raises(InvalidInput, match="is not a UUID"):
        ledgence.get(value)


def test_an_unknown_task_is_not_found_by_any_question(db):
    unknown = uuid4()
    with pytest.raises(NotFound, match=str(unknown)):
        ledgence.get(unknown)
    handle = ledgence.TaskHandle(id=unknown, using=USING)
    for question in (lambda: handle.state, handle.result, lambda: handle.requeue(reason="r")):
        with pytest.raises(NotFound, match=str(unknown)):
            question()
    assert handle.attempts == [] and handle.cancel() == "not_found"


def test_a_result_that_is_not_there_yet_is_told(worker: Worker):
    handle = submit()
    with pytest.raises(NotFinished, match="wait"):
        handle.result()
    worker.acquire_one()
    with pytest.raises(NotFinished):
        handle.result()


def test_a_failure_tells_the_last_attempt_and_what_it_raised(worker: Worker):
    handle = fail(worker, error=raised("a.Error", message="no such file: x"))
    with pytest.raises(TaskFailed) as failure:
        handle.result()
    assert str(failure.value) == f"Task {handle.id} failed: attempt 1 failed: Error: no such file: x"
    assert (failure.value.task_id, failure.value.outcome) == (handle.id, "failed")


def test_a_failure_without_a_word_tells_how_the_attempt_ended(worker: Worker):
    handle = submit(max_attempts=1)
    worker.acquire_one()
    expire_leases()
    expire(using=USING)
    with pytest.raises(TaskFailed, match=f"Task {handle.id} failed: attempt 1 lost$"):
        handle.result()


def test_a_cancelled_task_has_no_result_though_its_program_gave_one(worker: Worker):
    handle = submit()
    assignment = worker.acquire_one()
    assert handle.cancel() == "requested"
    worker.settle(assignment, result='"kept"')
    with pytest.raises(TaskFailed, match="cancelled: attempt 1 succeeded"):
        handle.result()
    assert handle.attempts[0].result == "kept"


def test_a_task_cancelled_before_it_ran_says_so(db):
    handle = submit()
    assert handle.cancel() == "cancelled"
    assert handle.cancel() == "terminal"
    with pytest.raises(TaskFailed, match="cancelled: attempt 1 cancelled$"):
        handle.result()


def test_an_application_requeues_with_a_reason_on_record(worker: Worker):
    handle = fail(worker)
    assert handle.requeue(reason="input fixed", name="importer") == "requeued"
    assert handle.requeue(reason="again") == "not_terminal"
    assert set(OperatorAction.objects.values_list("actor_name", "reason")) == {
        ("importer", "input fixed"),
        ("application", "again"),
    }
    assert handle.state is State.QUEUED
    with pytest.raises(InvalidInput, match="reason"):
        handle.requeue(reason=" ")


@pytest.mark.django_db(transaction=True)
def test_waiting_ends_with_the_result_of_another_connection():
    worker = Worker()
    handle = submit()
    assignment = worker.acquire_one()
    with Rival() as rival:
        waiting = rival.begin(lambda: handle.wait(DEADLINE_SECONDS))
        worker.settle(assignment, result="7")
        assert waiting.result(DEADLINE_SECONDS) == 7


@pytest.mark.django_db(transaction=True)
def test_waiting_ends_with_the_time_out():
    handle = submit()
    started = time.monotonic()
    with pytest.raises(NotFinished):
        handle.wait(0.05)
    assert 0.05 <= time.monotonic() - started < 5
    with pytest.raises(NotFinished):
        handle.wait(0)


@pytest.mark.django_db(transaction=True)
def test_waiting_for_what_is_over_does_not_wait():
    worker = Worker()
    handle = fail(worker)
    with pytest.raises(TaskFailed):
        handle.wait(60)


@pytest.mark.django_db(transaction=True)
def test_waiting_is_refused_inside_a_transaction():
    handle = submit()
    with transaction.atomic(), pytest.raises(InvalidInput, match="leave the transaction"):
        handle.wait(60)


def run_async(call):
    """Run a coroutine on a thread of its own, whose connections end with it."""
    outcome: list = []

    async def main():
        try:
            outcome.append(await call())
        finally:
            await sync_to_async(connections.close_all)()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join(DEADLINE_SECONDS)
    assert outcome, "the coroutine failed; its error stands above"
    return outcome[0]


@pytest.mark.django_db(transaction=True)
def test_the_asynchronous_twins_do_the_same():
    worker = Worker()

    async def play():
        handle = await ledgence.asubmit(PROGRAM, {"n": 1}, version=VERSION)
        [other] = await ledgence.asubmit_many([ledgence.NewTask(program=PROGRAM, version=VERSION)])
        assert await ledgence.aget(handle.id) == handle
        with pytest.raises(NotFinished):
            await handle.aresult()
        with pytest.raises(NotFinished):
            await handle.await_(0.01)
        assert (await other.astate(), await other.aattempts()) == (State.QUEUED, [])
        assert await other.acancel() == "cancelled"
        assert [(a.number, a.outcome) for a in await other.aattempts()] == [(1, "cancelled")]
        assert await other.arequeue(reason="r") == "requeued"
        return handle

    handle = run_async(play)
    worker.settle(worker.acquire_one(), result='"done"')
    assert run_async(lambda: handle.await_(DEADLINE_SECONDS)) == "done"
