"""A ledger on another database alias: every operation goes there, and nowhere else."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

import ledgence
from ledgence.api import get
from ledgence.operations.cancel import cancel
from ledgence.operations.expire import expire
from ledgence.operations.operate import cancel_by_operator, force_expire, republish, requeue, requeue_as_copy
from ledgence.operations.queues import pause, resume
from ledgence.operations.sessions import close_session, extend_session, open_session
from ledgence.operations.tokens import issue_by_operator, revoke_by_operator
from ledgence.tokens import authenticate, issue
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import Worker, assert_audit_clean, execute, operator, submit_task, submit_tasks

OTHER = "ledger"


pytestmark = pytest.mark.django_db(transaction=True, databases=["default", OTHER])


@pytest.fixture(scope="module", autouse=True)
def alias(django_db_setup: None) -> Iterator[None]:
    """Make another alias of the test database before a test asks for it."""
    connections.settings[OTHER] = deepcopy(connections.settings["default"])
    yield
    connections[OTHER].close()
    del connections[OTHER]
    del connections.settings[OTHER]


@pytest.fixture
def other(alias: None) -> Iterator[str]:
    """The other alias; the default one answers nothing meanwhile."""

    def refuse(execute, sql, params, many, context):
        raise AssertionError(f"the default database was asked: {sql}")

    with connections["default"].execute_wrapper(refuse):
        yield OTHER


def test_every_operation_goes_to_the_named_database(other: str):
    worker = Worker(using=other)
    tasks = submit_tasks(6, using=other)
    with transaction.atomic(using=other):
        submit_task(using=other, idempotency_key="k")
    done, failed, asked, over, forced, given_back = worker.acquire(6)
    worker.authorize(done)
    worker.renew(done)
    worker.settle(done, result='"r"')
    worker.settle(failed, Outcome.FAILED)
    worker.release(given_back)
    cancel([asked.task_id], using=other)
    force_expire({forced.task_id: 1}, operator(), using=other)
    execute("update ledgence_lease set expires_at = now() where task_id = %s", [over.task_id], using=other)
    assert expire(using=other) == 1
    requeue({failed.task_id: 1}, operator(), using=other)
    requeue_as_copy([done.task_id], operator(), using=other)
    republish([failed.task_id], operator(), using=other)
    cancel_by_operator([failed.task_id], operator(), using=other)
    [(queue,)] = execute("select id from ledgence_queue", using=other)
    pause([queue], operator(), using=other)
    resume([queue], operator(), using=other)
    worker.claim((given_back.task_id, 2), (uuid4(), 1))
    extend_session(worker.session_id, using=other)
    open_session(worker.opening, using=other)
    close_session(worker.session_id, using=other)
    handle = get(done.task_id, using=other)
    assert (handle.using, str(handle.state), handle.result()) == (other, "succeeded", "r")
    assert handle.wait(1) == "r" and len(handle.attempts) == 1
    assert get(failed.task_id, using=other).requeue(reason="r") == "requeued"
    assert get(failed.task_id, using=other).cancel() == "cancelled"
    assert_audit_clean(using=other)
    assert len(tasks) == 6


def test_tokens_are_those_of_the_named_database(other: str):
    terms: dict[str, Any] = {"name": "ci", "roles": ["work"], "tenant": "t", "namespace": "n", "using": other}
    row, text = issue_by_operator(operator(), **terms)
    assert authenticate(f"Bearer {text}", using=other).token_id == row.pk
    assert revoke_by_operator([row.pk], operator(), using=other) == {row.public_id: "revoked"}
    assert revoke_by_operator([row.pk], operator(), using=other) == {row.public_id: "already"}


def test_a_token_that_is_remembered_for_one_database_is_looked_up_in_another(alias: None):
    _, text = issue(name="ci", roles=["work"], tenant="t", namespace="n", using=OTHER)
    authenticate(f"Bearer {text}", using=OTHER)
    # Both aliases are one database here: what is told is whether it was asked.
    with CaptureQueriesContext(connections["default"]) as queries:
        authenticate(f"Bearer {text}", using="default")
    assert len(queries.captured_queries) == 1


def test_the_settings_name_the_database_of_the_ledger(other: str, settings):
    settings.LEDGENCE = {"DATABASE": other}
    handle = ledgence.submit("tests.work", version="1")
    assert handle.using == other
    assert str(ledgence.get(handle.id).state) == "queued"
