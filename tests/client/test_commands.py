"""What each command sends and how its answer is read, without a network."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from ledgence_worker import Backoff, Outcome, wire
from ledgence_worker.bodies import (
    AttemptStatus,
    NewTaskBody,
    Submitted,
    SubmittedTasks,
    TaskAttempts,
    TaskPage,
    TaskResult,
    TaskStatus,
)
from ledgence_worker.client import commands
from ledgence_worker.client.call import Call
from ledgence_worker.errors import InvalidInput, Unavailable
from ledgence_worker.http_connection import Answer
from ledgence_worker.limits import DATA_BYTES, SUBMIT_BYTES

TASK = UUID("0199d0a4-0000-7000-8000-000000000001")


def document(call: Call[Any]) -> Any:
    assert call.request.body is not None
    return json.loads(call.request.body)


def ok(value: object) -> Answer:
    return Answer(200, "application/json", wire.encode(value))


def status(id: UUID) -> TaskStatus:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    return TaskStatus(
        id=id, state="queued", queue="q", program="p", version="1", priority=0, submitted_at=moment, revision=0
    )


def test_a_submission_says_what_was_given_and_nothing_else() -> None:
    call = commands.submit(
        "shop.total",
        "2",
        {"b": 1.0, "a": None},
        {
            "queue": "mail",
            "idempotency_key": "order-7",
            "priority": 5,
            "run_after": datetime(2030, 1, 1, tzinfo=UTC),
            "timeout": None,
            "backoff": Backoff(initial_seconds=1.0),
            "retry_on": [Outcome.LOST, ConnectionError, "shop.errors.Later"],
        },
    )
    assert (call.request.method, call.request.path) == ("POST", "/tasks")
    assert document(call) == {
        "program": "shop.total",
        "version": "2",
        "data": {"b": 1.0, "a": None},
        "queue": "mail",
        "idempotency_key": "order-7",
        "priority": 5,
        "run_after": "2030-01-01T00:00:00+00:00",
        "timeout": None,
        "backoff": {"initial_seconds": 1.0},
        "retry_on": ["lost", "builtins.ConnectionError", "shop.errors.Later"],
    }
    # As text too: 1.0 must not become 1, nor the order of keys another.
    assert b'"data":{"b":1.0,"a":null}' in (call.request.body or b"")


def test_each_submission_without_a_key_gets_one_of_its_own() -> None:
    keys = {document(commands.submit("p", "1", None, {}))["idempotency_key"] for _ in range(3)}
    body = NewTaskBody(program="p", version="1")
    batch = commands.submit_many([body, body, NewTaskBody(program="p", version="1", idempotency_key="mine")])
    batch_keys = [task["idempotency_key"] for task in document(batch)["tasks"]]
    assert len(keys | set(batch_keys)) == 6
    assert batch_keys[2] == "mine"


@pytest.mark.parametrize(("key", "is_new"), [(None, True), ("mine", False)])
def test_a_task_under_the_clients_own_key_is_always_new(key: str | None, is_new: bool) -> None:
    found = Submitted(id=TASK, is_new=False)
    assert commands.submit("p", "1", None, {"idempotency_key": key}).read(ok(found)).is_new is is_new
    body = NewTaskBody(program="p", version="1", idempotency_key=key)
    [told] = commands.submit_many([body]).read(ok(SubmittedTasks(tasks=(found,))))
    assert told == Submitted(id=TASK, is_new=is_new)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param({"when": datetime(2026, 1, 1, tzinfo=UTC)}, "data .* datetime", id="datetime"),
        pytest.param([UUID(int=1)], "data .* uuid", id="uuid"),
        pytest.param({"x": float("nan")}, "data is not valid JSON", id="nan"),
        pytest.param("\ud800", "half of a surrogate pair", id="surrogate"),
        pytest.param("x" * DATA_BYTES, "data is too large", id="large"),
    ],
)
def test_data_that_is_no_strict_json_is_refused_before_it_is_sent(data: Any, text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        commands.submit("p", "1", data, {})
    with pytest.raises(InvalidInput, match=text):
        commands.submit_many([NewTaskBody(program="p", version="1", data=data)])


@pytest.mark.parametrize(
    "options",
    [{"queue": "\ud800"}, {"priority": float("nan")}, {"max_attempts": object()}, {"retry_on": "lost"}],
    ids=["surrogate", "nan", "object", "text"],
)
def test_options_that_cannot_be_sent_are_refused(options: Any) -> None:
    with pytest.raises(InvalidInput):
        commands.submit("p", "1", None, options)


def test_an_option_that_is_unknown_is_an_error_of_the_caller() -> None:
    unknown: Any = {"tenant": "other"}
    with pytest.raises(TypeError, match="tenant"):
        commands.submit("p", "1", None, unknown)
    with pytest.raises(InvalidInput, match="tenant"):
        commands.list_tasks(unknown)


def test_a_batch_that_is_too_large_is_refused_before_it_is_sent() -> None:
    tasks = [NewTaskBody(program="p", version="1", data="x" * (DATA_BYTES - 2))] * 4
    with pytest.raises(InvalidInput, match=f"at most {SUBMIT_BYTES}"):
        commands.submit_many(tasks)
    commands.submit_many(tasks[:3])


@pytest.mark.parametrize("task_id", ["", "../sessions", "7", "\ud800", f"{TASK}/cancel"])
def test_an_id_that_is_none_is_refused(task_id: str) -> None:
    for make in (commands.get, commands.attempts, commands.cancel):
        with pytest.raises(InvalidInput, match="not a UUID"):
            make(task_id)


def test_every_spelling_of_an_id_is_sent_as_the_one() -> None:
    assert commands.get(str(TASK).upper()).request.path == f"/tasks/{TASK}"
    assert commands.get(f"{{{TASK}}}").request == commands.get(TASK).request


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        pytest.param(commands.get(TASK), status(uuid4()), id="get"),
        pytest.param(commands.result(TASK, raw=False), TaskResult(id=UUID(int=1), state="queued"), id="result"),
        pytest.param(commands.result(TASK, raw=False), TaskResult(id=TASK, state="queued", result=1), id="no_end"),
        pytest.param(
            commands.submit_many([NewTaskBody(program="p", version="1")]), SubmittedTasks(tasks=()), id="submit_many"
        ),
        pytest.param(commands.attempts(TASK, 100), TaskAttempts(attempts=(), next_cursor=100), id="attempts"),
        pytest.param(commands.list_tasks({}, TASK), TaskPage(tasks=(), next_cursor=TASK), id="list"),
    ],
)
def test_an_answer_about_something_else_is_a_doubt(call: Call[Any], answer: object) -> None:
    with pytest.raises(Unavailable, match="not about what was asked"):
        call.read(ok(answer))


def test_pages_lead_to_the_next_one() -> None:
    first = commands.list_tasks({"state": "queued", "queue": "a b&c", "program": None})
    assert first.request.path == "/tasks?state=queued&queue=a+b%26c"
    page = first.read(ok(TaskPage(tasks=(status(TASK),), next_cursor=TASK)))
    assert page.items == (status(TASK),)
    assert page.next is not None
    assert page.next.request.path == f"{first.request.path}&cursor={TASK}"
    assert page.next.read(ok(TaskPage(tasks=()))).next is None
    assert commands.list_tasks({}).request.path == "/tasks"


def test_attempts_lead_to_the_next_page() -> None:
    first = commands.attempts(TASK)
    assert first.request.path == f"/tasks/{TASK}/attempts?cursor=1"
    one = AttemptStatus(number=1, cause="submitted")
    page = first.read(ok(TaskAttempts(attempts=(one,), next_cursor=2)))
    assert page.items == (one,)
    assert page.next is not None
    assert page.next.request.path == f"/tasks/{TASK}/attempts?cursor=2"


def test_a_requeue_has_an_action_of_its_own_or_the_given_one() -> None:
    made = [commands.requeue(TASK, revision=1, reason="again", action_id=None) for _ in range(2)]
    assert document(made[0])["action_id"] != document(made[1])["action_id"]
    given = commands.requeue(TASK, revision=1, reason="again", action_id=TASK)
    assert document(given) == {"action_id": str(TASK), "revision": 1, "reason": "again"}
    assert given.identity == f"action_id={TASK}"


@pytest.mark.parametrize(
    "text",
    ["1.0", '"\\u0000 \\" }"', "[]", '[1,{"result":2},3]', '{"z":1,"a":1e2}', "null", "12345678901234567890"],
)
@pytest.mark.parametrize(
    "shape",
    [
        '{"id":"ID","state":"succeeded","result":TEXT}',
        '{"result":TEXT,"state":"succeeded","id":"ID"}',
        ' { "id" : "ID" , "result" : TEXT , "state" : "succeeded" } ',
    ],
    ids=["last", "first", "spaced"],
)
def test_a_raw_result_is_the_text_as_it_is_stored(text: str, shape: str) -> None:
    body = shape.replace("TEXT", text).replace("ID", str(TASK)).encode()
    answer = Answer(200, "application/json", body)
    assert commands.result(TASK, raw=True).read(answer).result == text
    assert commands.result(TASK, raw=False).read(answer).result == json.loads(text)


def test_a_result_of_the_full_depth_is_read() -> None:
    text = "[" * 64 + "]" * 64
    body = f'{{"id":"{TASK}","state":"succeeded","result":{text}}}'.encode()
    assert commands.result(TASK, raw=True).read(Answer(200, "application/json", body)).result == text
