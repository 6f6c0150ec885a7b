"""Whatever is done to the answers of a real server: a command is sent again unchanged, and takes effect once."""

import logging
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from ledgence.models import DeliveryIntent, OperatorAction, Task
from ledgence.operations.cancel import cancel as cancel_task
from ledgence_worker.client import NewTaskBody
from ledgence_worker.errors import Unavailable
from tests.client.conftest import Connect
from tests.client.faults import ENDLESS, Fault, FaultyServer
from tests.ledger.actors import (
    PROGRAM,
    USING,
    VERSION,
    Worker,
    assert_audit_clean,
    outcomes_of,
    state_of,
    submit_task,
)
from tests.servers import free_port

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


def submit(client: Any) -> None:
    submitted = client.submit(PROGRAM, {"n": 1}, version=VERSION, correlation_key="one")
    assert submitted.is_new
    assert Task.objects.get(correlation_key="one").pk == submitted.id


def submit_with_key(client: Any) -> None:
    submitted = client.submit(PROGRAM, {"n": 1}, version=VERSION, idempotency_key="order-7")
    assert Task.objects.get(idempotency_key="order-7").pk == submitted.id


def submit_many(client: Any) -> None:
    bodies = [NewTaskBody(program=PROGRAM, version=VERSION, data=n, correlation_key="many") for n in range(3)]
    submitted = client.submit_many(bodies)
    assert [one.is_new for one in submitted] == [True] * 3
    rows = dict(Task.objects.filter(correlation_key="many").values_list("pk", "data"))
    assert [rows.pop(one.id) for one in submitted] == [0, 1, 2]
    assert rows == {}


def cancel(client: Any) -> None:
    task = submit_task()
    # By the try whose answer was lost.
    assert client.cancel(task).status == "terminal"
    assert outcomes_of(task) == ["cancelled"]


def requeue(client: Any) -> None:
    task = cancelled_task()
    assert client.requeue(task, revision=1, reason="again").status == "requeued"
    assert OperatorAction.objects.filter(kind="requeue").count() == 1
    assert DeliveryIntent.objects.get(pk=task).generation == 2


def get(client: Any) -> None:
    task = submit_task()
    assert client.get(task).id == task


def result(client: Any) -> None:
    worker, task = Worker(), submit_task(queue="results", priority=100)
    worker.settle(worker.acquire_one(), result='{"total":1.0}')
    assert client.result(task) == {"total": 1.0}
    assert client.wait(task, 5.0, raw=True) == '{"total":1.0}'


def attempts(client: Any) -> None:
    assert [attempt.outcome for attempt in client.attempts(cancelled_task())] == ["cancelled"]


def list_tasks(client: Any) -> None:
    task = submit_task(correlation_key="listed")
    assert [one.id for one in client.list(correlation_key="listed")] == [task]


COMMANDS: list[Callable[[Any], None]] = [
    submit,
    submit_with_key,
    submit_many,
    cancel,
    requeue,
    get,
    attempts,
    list_tasks,
    result,
]


def cancelled_task() -> Any:
    task = submit_task()
    cancel_task([task], using=USING)
    return task


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault not in ENDLESS])
def test_a_command_whose_answer_is_spoilt_is_sent_again_and_takes_effect_once(
    connect: Connect, faulty: FaultyServer, fault: Fault
) -> None:
    client = connect(faulty.url)
    for command in COMMANDS:
        faulty.plan = [fault]
        faulty.seen.clear()
        command(client)
        assert faulty.seen[0] == faulty.seen[1], command
    assert faulty.redirected == 0
    assert_audit_clean()


@pytest.mark.parametrize("fault", ENDLESS)
def test_an_answer_without_end_is_given_up_and_the_command_sent_again(
    connect: Connect, faulty: FaultyServer, fault: Fault
) -> None:
    faulty.plan = [fault]
    submit(connect(faulty.url, timeout=2.0))
    assert faulty.seen[0] == faulty.seen[1]


@pytest.mark.parametrize("fault", ENDLESS)
def test_a_call_ends_with_its_time_out_whatever_the_server_does(
    connect: Connect, faulty: FaultyServer, fault: Fault
) -> None:
    faulty.always = fault
    client = connect(faulty.url, timeout=1.0)
    began = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        client.submit(PROGRAM, version=VERSION)
    # A busy machine may take its time, an endless answer would take twenty seconds.
    assert time.monotonic() - began < 5.0
    assert len(faulty.seen) > 1
    key = Task.objects.get().idempotency_key
    assert any(f"idempotency_key={key}" in note for note in caught.value.__notes__)


def test_a_server_that_is_not_there_is_unavailable(connect: Connect) -> None:
    client = connect(f"http://127.0.0.1:{free_port()}", tries=3)
    with pytest.raises(Unavailable, match="POST .*/tasks had no answer") as caught:
        client.submit(PROGRAM, version=VERSION)
    assert "was sent 3 times" in caught.value.__notes__[0]


def test_a_wait_lasts_through_answers_that_are_lost(connect: Connect, faulty: FaultyServer) -> None:
    worker, task = Worker(), submit_task()
    worker.settle(worker.acquire_one(), result="7")
    faulty.plan = [Fault.RESET, Fault.PAGE, Fault.TRUNCATE, Fault.CLOSE]
    # More than a call may have.
    assert connect(faulty.url, tries=2).wait(task, 60.0) == 7
    assert len(faulty.seen) == 5


def test_the_token_stands_in_no_log_and_no_error(
    connect: Connect, faulty: FaultyServer, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = connect(faulty.url, tries=2)
    secret = token.rpartition("_")[2]
    for faulty.always in (fault for fault in Fault if fault not in ENDLESS):
        with pytest.raises(Unavailable) as caught:
            client.submit(PROGRAM, version=VERSION)
        assert secret not in "".join(traceback.format_exception(caught.value))
    assert "task service not available" in caplog.text
    assert secret not in caplog.text


def test_proxies_of_the_environment_are_not_used(
    connect: Connect, faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    task = submit_task()
    assert connect(faulty.url, tries=1).get(task).state == state_of(task)
