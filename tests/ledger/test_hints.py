"""Hints: one NOTIFY after the commit and never before, which may fail without anybody noticing."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import psycopg
import pytest
from django.db import OperationalError, transaction

from ledgence import hints, sql
from ledgence.models import Queue
from ledgence.operations.cancel import cancel
from ledgence.operations.operate import force_expire, republish, requeue
from ledgence.operations.queues import pause, resume
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import USING, Worker, operator, submit_task, submit_tasks

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def heard(database_url: str) -> Iterator[Callable[[], list[str]]]:
    """A function that returns what was announced since it was last called."""
    # What another test rolled back would go out with the first commit here.
    hints._pending.clear()
    with psycopg.connect(database_url, autocommit=True) as listener:
        listener.execute(f"listen {hints.CHANNEL}")

        def since() -> list[str]:
            # Everything that was sent before this one has arrived when it arrives.
            mark = str(uuid4())
            listener.execute("select pg_notify(%s, %s)", [hints.CHANNEL, mark])
            payloads: list[str] = []
            for notify in listener.notifies(timeout=20):
                if notify.payload == mark:
                    return payloads
                payloads.append(notify.payload)
            raise AssertionError(f"the mark did not arrive, after {payloads}")

        yield since


def queue_id(name="default") -> str:
    return str(Queue.objects.get(name=name).pk)


def test_a_submission_is_announced_after_its_commit(heard):
    with transaction.atomic():
        submit_task()
        assert heard() == []
    assert heard() == [queue_id()]


def test_what_is_rolled_back_is_not_announced(heard):
    submit_task(queue="made")
    heard()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        submit_task()
        raise ZeroDivisionError
    assert heard() == []


def test_a_transaction_is_announced_once_with_all_its_queues(heard):
    with transaction.atomic():
        for queue in "abba":
            submit_tasks(2, queue=queue)
    assert heard() == [" ".join(sorted(map(queue_id, "ab")))]


def test_very_many_queues_are_announced_as_everything(heard, monkeypatch):
    monkeypatch.setattr(hints, "WORDS_MAX", 2)
    with transaction.atomic():
        for queue in "abc":
            submit_task(queue=queue)
    assert heard() == [hints.EVERYTHING]


def test_so_many_words_as_are_named_fit_a_payload():
    longest = [str(2**31 - 1)] * (hints.WORDS_MAX - 1) + [hints.CANCEL]
    assert len(" ".join(longest)) <= 7_999


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.INTERRUPTED])
def test_work_that_comes_back_is_announced(heard, outcome):
    worker = Worker()
    submit_task()
    assignment = worker.acquire_one()
    heard()
    worker.settle(assignment, outcome)
    assert heard() == [queue_id()]


def test_an_end_and_a_claim_are_not_announced(heard):
    worker = Worker()
    submit_task()
    heard()
    worker.settle(worker.acquire_one())
    assert heard() == []


def test_owners_hear_of_cancel_requests_and_forced_expiry(heard):
    worker = Worker()
    tasks = submit_tasks(2)
    worker.acquire(2)
    heard()
    cancel([tasks[0]], using=USING)
    assert heard() == [hints.CANCEL]
    force_expire({tasks[1]: 1}, operator(), using=USING)
    assert heard() == [" ".join(sorted([queue_id(), hints.CANCEL]))]


def test_operators_make_work_heard(heard):
    worker = Worker()
    task = submit_task()
    worker.settle(worker.acquire_one(), Outcome.FAILED)
    heard()
    requeue({task: 1}, operator(), using=USING)
    assert heard() == [queue_id()]
    republish([task], operator(), using=USING)
    assert heard() == [queue_id()]
    pause([int(queue_id())], operator(), using=USING)
    assert heard() == []
    resume([int(queue_id())], operator(), using=USING)
    assert heard() == [queue_id()]


def test_with_hints_off_nothing_is_announced(heard, settings):
    settings.LEDGENCE = {"HINTS": False}
    submit_task()
    assert heard() == []


def test_a_hint_that_fails_reaches_nobody(monkeypatch):
    run = sql.run

    def broken(name, using, parameters=None):
        if name == "notify":
            raise OperationalError("gone")
        return run(name, using, parameters)

    monkeypatch.setattr(sql, "run", broken)
    task = submit_task()
    monkeypatch.undo()
    assert [a.task_id for a in Worker().acquire(1)] == [task]
