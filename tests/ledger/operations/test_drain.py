"""Draining a worker: its session gets nothing more, is told so with whatever it asks next, and keeps what it has."""

import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from django.db import transaction

from ledgence import sql
from ledgence.models import DeliveryIntent, OperatorAction, Queue, WorkerSession
from ledgence.operations.sessions import close_session, drain, extend_session, open_session
from ledgence.service import DatabaseTaskService
from ledgence_worker.protocol import Acquire, Outcome
from tests.faults.waiting import wait_until
from tests.ledger.actors import (
    USING,
    Worker,
    assert_audit_clean,
    execute,
    operator,
    settlement_of,
    state_of,
    statuses_of,
    submit_task,
    submit_tasks,
)
from tests.ledger.frozen import FrozenClock
from tests.ledger.rivals import Rival


def drain_one(worker: Worker) -> str:
    return drain([worker.session_id], operator(), using=USING)[str(worker.session_id)]


def test_a_draining_session_acquires_nothing_and_is_told_at_once(worker: Worker):
    task = submit_task()
    assert drain_one(worker) == "draining"
    # Also one that would wait, and whose empty answer is not recorded otherwise.
    reply = worker.send(1, record_empty=False)
    assert reply is not None
    assert (reply.assignments, reply.drain_requested) == ((), True)
    again = worker.send(1)
    assert again is not None and again.drain_requested
    assert Worker().acquire_one().task_id == task
    assert_audit_clean()


def test_it_keeps_what_it_has_and_settles_it(worker: Worker):
    submit_tasks(3)
    first, second = worker.acquire(2)
    drain_one(worker)
    assert worker.renew(first).status == "renewed"
    reply = worker.send(2, 2, settlements=[settlement_of(first), settlement_of(second, Outcome.CRASHED)])
    assert reply is not None
    assert [answer.consequence for answer in reply.settled] == ["succeeded", "retry"]
    assert (reply.assignments, reply.drain_requested) == ((), True)
    assert_audit_clean()


def test_a_lost_reply_from_before_is_repeated_with_its_assignments(worker: Worker):
    submit_task()
    [assignment] = worker.acquire(1)
    drain_one(worker)
    reply = worker.send(worker.sequence)
    assert reply is not None
    assert ([a.token for a in reply.assignments], reply.drain_requested) == ([assignment.token], True)


def test_a_claim_is_deferred_and_its_work_announced_again_to_others(clock: FrozenClock, worker: Worker):
    Queue.objects.create(tenant="default", namespace="default", name="far", mode="external", destination="there")
    task = submit_task(queue="far")
    drain_one(worker)
    claimed = worker.claim((task, 1))
    assert statuses_of(claimed) == {(task, 1): "deferred"}
    assert (claimed.assignments, claimed.drain_requested) == ((), True)
    intent = DeliveryIntent.objects.get()
    assert (intent.epoch, intent.next_publish_at) == (2, clock.now)
    again = worker.claim((task, 1), sequence=1)
    assert again.drain_requested
    assert statuses_of(Worker().claim((task, 1))) == {(task, 1): "claimed"}
    assert_audit_clean()


def test_it_is_told_with_the_extension_which_every_worker_sends(worker: Worker):
    assert not extend_session(worker.session_id, using=USING).drain_requested
    drain_one(worker)
    assert extend_session(worker.session_id, using=USING).drain_requested
    assert open_session(worker.opening, using=USING).drain_requested


def test_every_session_is_answered_and_a_repeat_gets_the_same(clock: FrozenClock, worker: Worker):
    closed, over, unknown, by = Worker(), Worker(), uuid4(), operator("reboot")
    close_session(closed.session_id, using=USING)
    WorkerSession.objects.filter(pk=over.session_id).update(expires_at=clock.now)
    named = [worker.session_id, closed.session_id, over.session_id, unknown]
    answers = drain(named, by, using=USING)
    assert answers == {
        str(worker.session_id): "draining",
        str(closed.session_id): "ended",
        str(over.session_id): "ended",
        str(unknown): "not_found",
    }
    assert drain(named, by, using=USING) == answers
    assert drain_one(worker) == "already"
    assert WorkerSession.objects.get(pk=worker.session_id).drain_requested_at == clock.now
    action = OperatorAction.objects.get(pk=by.action_id)
    assert (action.kind, action.changed, action.skipped) == ("drain", 1, {"ended": 2, "not_found": 1})


def test_others_go_on(worker: Worker):
    tasks = submit_tasks(2)
    drain_one(Worker())
    assert {a.task_id for a in worker.acquire(2)} == set(tasks)


@pytest.mark.django_db(transaction=True)
def test_it_holds_from_its_commit_on():
    worker = Worker()
    tasks = submit_tasks(2)
    with Rival() as rival:
        with transaction.atomic():
            drain_one(worker)
            [assignment] = rival.do(lambda: worker.acquire(1))
            assert assignment.task_id == tasks[0]
        assert rival.do(lambda: worker.acquire(1)) == []
    assert state_of(tasks[1]) == "queued"


@pytest.mark.django_db(transaction=True)
def test_of_two_operators_one_drains_it():
    worker = Worker()
    with Rival() as rival:
        with transaction.atomic():
            assert drain_one(worker) == "draining"
            other = rival.begin(lambda: drain_one(worker))
            rival.wait_until_blocked(other)
        assert other.result(20) == "already"


@pytest.mark.django_db(transaction=True)
def test_a_session_that_closes_while_it_is_waited_for_has_ended():
    worker = Worker()
    with Rival() as rival:
        with transaction.atomic():
            close_session(worker.session_id, using=USING)
            draining = rival.begin(lambda: drain_one(worker))
            rival.wait_until_blocked(draining)
        assert draining.result(20) == "ended"


@pytest.mark.django_db(transaction=True)
def test_a_hint_ends_the_wait_for_work(settings):
    settings.LEDGENCE = {**getattr(settings, "LEDGENCE", {}), "HINTS": True}
    # A queue that it serves, by which the hint finds it.
    submit_task()
    Worker().acquire_one()
    worker = Worker()
    service = DatabaseTaskService(USING)
    command = Acquire(session_id=worker.session_id, channel=0, sequence=1, capacity=1, wait_seconds=20)
    began = time.monotonic()
    try:
        listener = service._listener
        assert listener is not None
        wait_until(lambda: listener.is_hearing, "the listener to hear")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(service.acquire, command)
            asked = "select 1 from ledgence_channel where session_id = %s"
            wait_until(lambda: execute(asked, [worker.session_id]), "the first look")
            assert drain_one(worker) == "draining"
            assert waiting.result(20).drain_requested
        assert time.monotonic() - began < 10
    finally:
        service.interrupt()
        service.close()


def test_a_parked_wait_over_http_is_woken(worker: Worker):
    asked = {"sessions": [worker.session_id]}
    assert sql.run("find_sessions_to_wake", USING, asked) == []
    drain_one(worker)
    assert sql.run("find_sessions_to_wake", USING, asked) == [(worker.session_id,)]
