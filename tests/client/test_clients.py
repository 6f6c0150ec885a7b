"""Both clients against a real server: each command, what it answers, and what it raises."""

import asyncio
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections
from django.utils import timezone

from ledgence.models import Attempt, Task
from ledgence.tokens import Role, issue
from ledgence_worker.client import AsyncClient, Client, NewTaskBody
from ledgence_worker.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFinished,
    NotFound,
    TaskFailed,
    Unauthenticated,
)
from ledgence_worker.protocol import Outcome
from tests.client.conftest import Connect
from tests.http.servers import Server
from tests.ledger.actors import PROGRAM, USING, VERSION, Worker, raised, state_of, submit_task, submit_tasks

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

WITHOUT_HTTPX = """
import sys
sys.modules["httpx"] = None
from ledgence_worker.client import Client
Client("http://localhost:1", "token").close()
try:
    from ledgence_worker.client import AsyncClient
except ImportError as error:
    print(error)
"""


@pytest.fixture
def client(connect: Connect, server: Server) -> Any:
    return connect(server.url)


def test_a_task_goes_from_submission_to_its_result(client: Any) -> None:
    submitted = client.submit(PROGRAM, {"n": [1, 2.0, None]}, version=VERSION, priority=3, correlation_key="c")
    assert submitted.is_new
    status = client.get(submitted.id)
    assert (status.id, status.state, status.priority) == (submitted.id, "queued", 3)
    assert (status.program, status.version, status.correlation_key) == (PROGRAM, VERSION, "c")
    with pytest.raises(NotFinished, match=f"{submitted.id} is not finished"):
        client.result(submitted.id)
    worker = Worker()
    assignment = worker.acquire_one()
    assert client.get(submitted.id).state == "active"
    worker.settle(assignment, result='{"b":1.0,"a":"\\u0000"}')
    assert client.result(submitted.id) == {"b": 1.0, "a": "\0"}
    assert client.result(str(submitted.id), raw=True) == '{"b":1.0,"a":"\\u0000"}'
    assert client.wait(submitted.id, 5.0) == {"b": 1.0, "a": "\0"}
    [attempt] = client.attempts(submitted.id)
    assert (attempt.number, attempt.cause, attempt.outcome) == (1, "submitted", "succeeded")


def test_a_wait_ends_when_the_task_does(client: Any) -> None:
    task = submit_task()
    about_to_ask = threading.Event()

    def work() -> None:
        about_to_ask.wait(10)
        worker = Worker()
        worker.settle(worker.acquire_one(), result="42")
        connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        with pytest.raises(NotFinished, match=f"{task} is queued after 0.2 s"):
            client.wait(task, 0.2)
        about_to_ask.set()
        assert client.wait(task, 30.0) == 42
    finally:
        about_to_ask.set()
        thread.join()


@pytest.mark.parametrize(
    "ask",
    [lambda client, task: client.result(task), lambda client, task: client.wait(task, 5.0)],
    ids=["result", "wait"],
)
def test_a_task_that_failed_raises_how(client: Any, ask: Callable[[Any, Any], Any]) -> None:
    worker, task = Worker(), submit_task(max_attempts=1)
    worker.settle(worker.acquire_one(), Outcome.FAILED, error=raised("builtins.ValueError", message="no such order"))
    with pytest.raises(TaskFailed, match="failed: attempt 1 failed: ValueError: no such order") as failed:
        ask(client, task)
    assert (failed.value.task_id, failed.value.outcome) == (task, "failed")
    cancelled = submit_task()
    assert client.cancel(cancelled).status == "cancelled"
    with pytest.raises(TaskFailed) as caught:
        ask(client, cancelled)
    assert caught.value.outcome == "cancelled"


def test_a_key_answers_the_first_task_and_refuses_other_content(client: Any) -> None:
    first = client.submit(PROGRAM, 1, version=VERSION, idempotency_key="k")
    again = client.submit(PROGRAM, 1, version=VERSION, idempotency_key="k")
    assert (again.id, again.is_new) == (first.id, False)
    with pytest.raises(Conflict, match="'k'"):
        client.submit(PROGRAM, 2, version=VERSION, idempotency_key="k")
    one, other = client.submit(PROGRAM, 1, version=VERSION), client.submit(PROGRAM, 1, version=VERSION)
    assert one.id != other.id


def test_a_batch_is_all_or_none(client: Any) -> None:
    good = NewTaskBody(program=PROGRAM, version=VERSION, data="d" * 1000)
    with pytest.raises(InvalidInput, match="priority"):
        client.submit_many([good, NewTaskBody(program=PROGRAM, version=VERSION, priority=1000)])
    assert not Task.objects.exists()
    submitted = client.submit_many([good] * 1000)
    assert Task.objects.count() == len({one.id for one in submitted}) == 1000
    assert client.submit_many([]) == ()
    with pytest.raises(InvalidInput, match="1001"):
        client.submit_many([good] * 1001)


def test_a_list_goes_over_all_its_pages(client: Any) -> None:
    tasks = submit_tasks(250, queue="a") + submit_tasks(3, queue="b")
    assert [task.id for task in client.list()] == sorted(tasks, reverse=True)
    assert {task.queue for task in client.list(queue="b", state="queued")} == {"b"}
    assert list(client.list(program="another")) == []


def test_attempts_go_over_all_their_pages(client: Any) -> None:
    task = submit_task()
    # What a task with many retries has; only their numbers matter here.
    ended: dict[str, Any] = {"outcome": "cancelled", "consequence": "cancelled", "finished_at": timezone.now()}
    Attempt.objects.bulk_create(
        Attempt(
            task_id=task,
            number=number,
            cause="requeued",
            delivery_mode="integrated",
            available_at=timezone.now(),
            **ended,
        )
        for number in range(1, 251)
    )
    assert [attempt.number for attempt in client.attempts(task)] == list(range(1, 251))


def test_a_requeue_applies_to_the_revision_that_was_seen(client: Any) -> None:
    task = submit_task()
    assert client.requeue(task, revision=0, reason="early").status == "not_terminal"
    client.cancel(task)
    action = uuid4()
    revision = client.get(task).revision
    assert client.requeue(task, revision=revision, reason="again", action_id=action).status == "requeued"
    assert client.requeue(task, revision=revision, reason="again", action_id=action).status == "requeued"
    assert client.requeue(task, revision=revision, reason="again").status == "moved_on"
    assert state_of(task) == "queued"


def test_what_does_not_exist_is_not_found(client: Any) -> None:
    for ask in (client.get, client.result, client.cancel, lambda task: list(client.attempts(task))):
        with pytest.raises(NotFound):
            ask(uuid4())
    with pytest.raises(NotFound):
        client.wait(uuid4(), 5.0)


def test_a_token_is_needed_that_allows_it(connect: Connect, server: Server, transactional_db: None) -> None:
    _, other = issue(name="worker", roles=[Role.WORK], tenant="default", namespace="default", using=USING)
    with pytest.raises(Forbidden, match="work"):
        connect(server.url, token=other).submit(PROGRAM, version=VERSION)
    with pytest.raises(Unauthenticated):
        connect(server.url, token=other[:-1] + "!").submit(PROGRAM, version=VERSION)


def test_threads_share_a_client(token: str, server: Server) -> None:
    tasks = submit_tasks(40)
    with Client(server.url, token) as client, ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert [status.id for status in pool.map(client.get, tasks)] == tasks
        assert len(client._idle) <= 8
    assert not client._idle


def test_a_forked_process_does_not_use_its_parents_connections(
    token: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = submit_task()
    with Client(server.url, token) as client:
        client.get(task)
        [parents] = client._idle
        monkeypatch.setattr(os, "getpid", os.getppid)
        client.get(task)
        assert list(client._idle) != [parents]
        parents.close()


def test_many_requests_of_one_loop_go_at_once_and_one_can_be_cancelled(token: str, server: Server) -> None:
    tasks = submit_tasks(120)

    async def run() -> None:
        async with AsyncClient(server.url, token) as client:
            waiting = asyncio.create_task(client.wait(tasks[0], 60.0))
            statuses = await asyncio.gather(*map(client.get, tasks))
            assert [status.id for status in statuses] == tasks
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await client.get(tasks[0])).state == "queued"

    asyncio.run(run())


def test_both_clients_have_the_same_methods() -> None:
    names = {name for name in vars(Client) if not name.startswith("_")}
    assert names == {name for name in vars(AsyncClient) if not name.startswith("_")}
    for name in names | {"__init__"}:
        own, other = (inspect.signature(getattr(kind, name)).parameters for kind in (Client, AsyncClient))
        assert own == other, name


def test_without_httpx_only_the_asynchronous_client_is_missing() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_HTTPX], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert 'pip install "django-ledgence-worker[http]"' in ran.stdout
