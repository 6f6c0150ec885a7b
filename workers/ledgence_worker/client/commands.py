"""Every command of an application as a call: what it sends and how its answer is read. Nothing here does I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypedDict
from urllib.parse import urlencode
from uuid import UUID, uuid4

from ledgence_worker import strict_json, wire
from ledgence_worker.bodies import (
    AttemptStatus,
    CancelAnswer,
    NewTaskBody,
    RequeueAnswer,
    RequeueBody,
    Submitted,
    SubmittedTasks,
    TaskAttempts,
    TaskPage,
    TaskResult,
    TaskStatus,
)
from ledgence_worker.client.call import Call, Page, Request, expect, read_as
from ledgence_worker.client.results import read_result
from ledgence_worker.errors import InvalidInput
from ledgence_worker.http_connection import Answer
from ledgence_worker.limits import SUBMIT_BYTES
from ledgence_worker.programs import UNSET, Backoff, Unset, retry_words
from ledgence_worker.protocol import Outcome


class TaskOptions(TypedDict, total=False):
    """What may be said about a task that is submitted; what is left out comes from the service's settings."""

    queue: str | None
    #: A repeat returns the first task; other content under it is a Conflict. Left out, the client makes one.
    idempotency_key: str | None
    #: To find tasks that belong together.
    correlation_key: str | None
    #: -100 to 100, higher first.
    priority: int
    #: An aware moment; none before now.
    run_after: datetime | None
    #: Counting the first.
    max_attempts: int | Unset
    #: Seconds of each attempt; None is unlimited.
    timeout: float | None | Unset
    backoff: Backoff | Unset
    #: Outcomes, and exception classes or their dotted names.
    retry_on: Sequence[Outcome | type[BaseException] | str] | Unset
    #: The W3C trace context that the attempts continue.
    traceparent: str | None


class TaskFilter(TypedDict, total=False):
    """Which tasks to list; what is left out or None does not matter."""

    #: queued, active, waiting, succeeded, failed or cancelled.
    state: str | None
    queue: str | None
    program: str | None
    idempotency_key: str | None
    correlation_key: str | None


# Any: whatever JSON the program takes.
def submit(program: str, version: str, data: Any, options: TaskOptions) -> Call[Submitted]:
    """Make the submission of one task."""
    words = options.get("retry_on", UNSET)
    given: Any = options | {"retry_on": words if isinstance(words, Unset) else retry_words(words)}
    body, is_ours = _with_key(NewTaskBody(program=program, version=version, data=data, **given))

    def read(answer: Answer) -> Submitted:
        return _told(read_as(Submitted, statuses=(200, 201))(answer), is_ours)

    request = Request(method="POST", path="/tasks", body=_checked(_text_of(body)))
    return Call(request=request, read=read, identity=f"idempotency_key={body.idempotency_key}")


def submit_many(tasks: Iterable[NewTaskBody]) -> Call[tuple[Submitted, ...]]:
    """Make the submission of many tasks, all or none."""
    keyed = [_with_key(task) for task in tasks]
    text = f'{{"tasks":[{",".join(_text_of(body) for body, _ in keyed)}]}}'

    def read(answer: Answer) -> tuple[Submitted, ...]:
        submitted = read_as(SubmittedTasks)(answer).tasks
        expect(len(submitted) == len(keyed), f"{len(keyed)} tasks")
        return tuple(_told(one, is_ours) for one, (_, is_ours) in zip(submitted, keyed, strict=True))

    return Call(request=Request(method="POST", path="/tasks/batch", body=_checked(text)), read=read)


def get(task_id: UUID | str) -> Call[TaskStatus]:
    """Ask how a task stands."""
    task = _task_id(task_id)

    def read(answer: Answer) -> TaskStatus:
        status = read_as(TaskStatus)(answer)
        expect(status.id == task, f"task {task}")
        return status

    return Call(request=Request(method="GET", path=f"/tasks/{task}"), read=read)


def result(task_id: UUID | str, *, raw: bool, wait_seconds: float = 0.0) -> Call[TaskResult]:
    """Ask for a task's result, which the service may wait for, up to WAIT_SECONDS_MAX."""
    task = _task_id(task_id)
    path = f"/tasks/{task}/result" + (f"?wait_seconds={wait_seconds:.3f}" if wait_seconds else "")
    request = Request(method="GET", path=path)
    return Call(request=request, read=read_result(task, raw=raw), wait_seconds=wait_seconds)


def attempts(task_id: UUID | str, first: int = 1) -> Call[Page[AttemptStatus]]:
    """Ask for a page of a task's attempts, from number ``first``."""
    task = _task_id(task_id)

    def read(answer: Answer) -> Page[AttemptStatus]:
        page = read_as(TaskAttempts)(answer)
        number = page.next_cursor
        expect(number is None or number > first, "a page further on")
        return Page(items=page.attempts, next=None if number is None else attempts(task, number))

    return Call(request=Request(method="GET", path=f"/tasks/{task}/attempts?cursor={first}"), read=read)


def list_tasks(only: TaskFilter, cursor: UUID | None = None) -> Call[Page[TaskStatus]]:
    """Ask for a page of tasks, newest first."""
    query = {name: value for name, value in only.items() if value is not None}
    if unknown := query.keys() - TaskFilter.__annotations__.keys():
        raise InvalidInput(f"list knows no filter {', '.join(sorted(unknown))}.")
    if cursor is not None:
        query["cursor"] = str(cursor)

    def read(answer: Answer) -> Page[TaskStatus]:
        page = read_as(TaskPage)(answer)
        after = page.next_cursor
        expect(after is None or cursor is None or after < cursor, "a page further on")
        return Page(items=page.tasks, next=None if after is None else list_tasks(only, after))

    try:
        text = urlencode(query)
    except UnicodeEncodeError:
        raise InvalidInput("A filter holds half of a surrogate pair, which is no character.") from None
    return Call(request=Request(method="GET", path=f"/tasks?{text}" if text else "/tasks"), read=read)


def cancel(task_id: UUID | str) -> Call[CancelAnswer]:
    """Cancel a task."""
    request = Request(method="POST", path=f"/tasks/{_task_id(task_id)}/cancel")
    return Call(request=request, read=read_as(CancelAnswer))


def requeue(task_id: UUID | str, *, revision: int, reason: str, action_id: UUID | None) -> Call[RequeueAnswer]:
    """Make a failed or cancelled task ready again."""
    action = uuid4() if action_id is None else action_id
    body = RequeueBody(action_id=action, revision=revision, reason=reason)
    text = strict_json.dumps(wire.write(body), what="The requeue")
    request = Request(method="POST", path=f"/tasks/{_task_id(task_id)}/requeue", body=text.encode())
    return Call(request=request, read=read_as(RequeueAnswer), identity=f"action_id={action}")


def _with_key(body: NewTaskBody) -> tuple[NewTaskBody, bool]:
    """Give a task an idempotency key if it has none, so that it can be sent twice; tell whether it is ours."""
    if body.idempotency_key is not None:
        return body, False
    return replace(body, idempotency_key=f"client-{uuid4()}"), True


def _told(submitted: Submitted, is_ours: bool) -> Submitted:
    # Nobody else has the key that was made for this call: an older task under it is from a try whose answer was lost.
    return replace(submitted, is_new=True) if is_ours else submitted


def _text_of(body: NewTaskBody) -> str:
    terms = strict_json.dumps(wire.write(replace(body, data=None)), what="The task")
    data = strict_json.dumps(body.data, what="data")
    return f'{terms[:-1]},"data":{data}}}'


def _checked(text: str) -> bytes:
    body = text.encode()
    if len(body) > SUBMIT_BYTES:
        raise InvalidInput(f"The submission has {len(body)} bytes; at most {SUBMIT_BYTES} are accepted. Split it.")
    return body


def _task_id(value: UUID | str) -> UUID:
    try:
        return value if isinstance(value, UUID) else UUID(str(value))
    except ValueError:
        raise InvalidInput(f"Task id {str(value)[:80]!r} is not a UUID.") from None
