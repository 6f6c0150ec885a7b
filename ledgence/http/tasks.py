"""What applications and operators ask for: submission, status, results, attempts, lists, cancel and requeue."""

from dataclasses import fields
from typing import Any
from uuid import UUID

from django.db.models import Func, IntegerField, TextField
from django.db.models.functions import Cast

from ledgence import sql
from ledgence.api import submit_many
from ledgence.conf import get_settings
from ledgence.handle import last_error
from ledgence.http.endpoint import Reply, Request, Topic, Wait, answer
from ledgence.http.limits import ATTEMPTS_BYTES, ATTEMPTS_PAGE, INT_MAX, PAGE_MAX, TASKS_MAX, WINDOW
from ledgence.models import Attempt, State, Task
from ledgence.new_task import NewTask
from ledgence.operations.actions import Operator
from ledgence.operations.cancel import CancelStatus, cancel
from ledgence.operations.operate import requeue
from ledgence_worker import limits, wire
from ledgence_worker.bodies import (
    AttemptStatus,
    CancelAnswer,
    NewTaskBody,
    RequeueAnswer,
    Submitted,
    SubmittedTasks,
    TaskAttempts,
    TaskPage,
    TaskResult,
    TaskStatus,
)
from ledgence_worker.errors import InvalidInput, NotFound

#: Above every id.
HIGHEST = str(UUID(int=2**128 - 1))


def submit(request: Request) -> Reply:
    """Submit one task in the token's scope."""
    [submitted] = _submit(request, [request.body])
    return answer(submitted, status=201 if submitted.is_new else 200)


def submit_batch(request: Request) -> Reply:
    """Submit tasks, all or none."""
    tasks = request.body.tasks
    if len(tasks) > TASKS_MAX:
        raise InvalidInput(f"tasks: {len(tasks)} in one request; at most {TASKS_MAX} are accepted.")
    return answer(SubmittedTasks(tasks=tuple(_submit(request, tasks))))


def _submit(request: Request, bodies: Any) -> list[Submitted]:
    scope = request.caller
    for body in bodies:
        scope.require_queue(body.queue if body.queue is not None else get_settings().queue)
    tasks = [_new_task(body, request) for body in bodies]
    return [Submitted(id=handle.id, is_new=handle.is_new) for handle in submit_many(tasks, using=request.using)]


def _new_task(body: NewTaskBody, request: Request) -> NewTask:
    scope = request.caller
    return NewTask(
        program=body.program,
        data=body.data,
        version=body.version,
        # Not the queue that a program of this process names: only those that the token does.
        queue=body.queue if body.queue is not None else get_settings().queue,
        tenant=scope.tenant,
        namespace=scope.namespace,
        idempotency_key=body.idempotency_key,
        correlation_key=body.correlation_key,
        priority=body.priority,
        run_after=body.run_after,
        max_attempts=body.max_attempts,
        timeout=body.timeout,
        backoff=body.backoff,
        retry_on=body.retry_on,
        traceparent=body.traceparent,
    )


def status(request: Request) -> Reply:
    """Tell how a task stands."""
    return answer(_status(_find(request)))


def result(request: Request) -> Reply | None:
    """Tell a task's state, with its result or last error once it has ended."""
    task = _find(request, with_result=True)
    if task.outcome is None and not request.is_last:
        return None
    reply = TaskResult(
        id=task.pk,
        state=task.state,
        error=last_error(task.pk, using=request.using) if task.outcome == State.FAILED else None,
    )
    if task.outcome != State.SUCCEEDED:
        return answer(reply)
    # The text as it is stored: as a value, 1.0 might become 1 somewhere on the way.
    return Reply(body=wire.encode(reply)[:-1] + b',"result":' + task.text.encode() + b"}")


def wait_for_end(request: Request) -> Wait | None:
    """Tell how long the request may wait for the task's end."""
    seconds = request.query.get("wait_seconds", 0.0)
    return Wait(seconds=seconds, topic=Topic.END, key=request.named) if seconds else None


def attempts(request: Request) -> Reply:
    """List the attempts of a task."""
    task = _find(request)
    first = request.query.get("cursor", 1)
    found = Attempt.objects.using(request.using).filter(task_id=task.pk, number__gte=first).order_by("number")
    # Measured before they are fetched: a hundred of the largest are more than a process should hold for one caller.
    size = Func(Cast("report", TextField()), function="octet_length", output_field=IntegerField())
    numbers = _page(list(found.values_list("number", size)[:ATTEMPTS_PAGE]))
    columns = ("number", "cause", "outcome", "claimed_at", "finished_at", "report")
    rows = list(found.values(*columns)[: len(numbers)])
    more = rows[-1]["number"] + 1 if rows and found.filter(number__gt=rows[-1]["number"]).exists() else None
    return answer(TaskAttempts(attempts=tuple(AttemptStatus(**row) for row in rows), next_cursor=more))


def _page(sizes: list[tuple[int, int | None]]) -> list[int]:
    """Return the numbers of the attempts that one page holds: the first of them whatever its size."""
    numbers: list[int] = []
    room = ATTEMPTS_BYTES
    for number, size in sizes:
        room -= size or 0
        if room < 0 and numbers:
            break
        numbers.append(number)
    return numbers


def list_tasks(request: Request) -> Reply:
    """List tasks, newest first."""
    query, scope = request.query, request.caller
    limit, state = query.get("limit", PAGE_MAX), query.get("state")
    if (queue := query.get("queue")) is not None:
        scope.require_queue(queue)
    queues = [queue] if queue is not None else sorted(scope.queues) or None
    rows = sql.run(
        "list_tasks",
        request.using,
        {
            "source": _source(query, state),
            "cursor": query.get("cursor", HIGHEST),
            "window": WINDOW,
            "limit": limit,
            "tenant": scope.tenant,
            "namespace": scope.namespace,
            "queues": queues,
            "program": query.get("program"),
            "state": state,
            "idempotency_key": query.get("idempotency_key"),
            "correlation_key": query.get("correlation_key"),
        },
    )
    ended_at = next((row[0] for row in rows if row[1] is None), None)
    tasks = tuple(TaskStatus(**dict(zip(STATUS, row, strict=True))) for row in rows if row[1] is not None)
    return answer(TaskPage(tasks=tasks, next_cursor=tasks[-1].id if len(tasks) == limit else ended_at))


def _source(query: Any, state: str | None) -> str:
    """Return what holds the fewest rows that may match."""
    if "idempotency_key" in query:
        return "key"
    if "correlation_key" in query:
        return "correlation"
    return state if state in (State.QUEUED, State.ACTIVE) else "task"


def cancel_task(request: Request) -> Reply:
    """Cancel a task: at once while it is queued, by request while it is active."""
    task = _find(request)
    status = cancel([task.pk], using=request.using)[task.pk]
    if status is CancelStatus.NOT_FOUND:
        raise _not_found(request)
    return answer(CancelAnswer(status=status.value))


def requeue_task(request: Request) -> Reply:
    """Make a failed or cancelled task ready again, recorded with who and why."""
    task, body, scope = _find(request), request.body, request.caller
    limits.check_range("requeue: revision", body.revision, 0, INT_MAX)
    # The public id first: names are not unique.
    operator = Operator(action_id=body.action_id, name=f"token {scope.public_id} ({scope.name})", reason=body.reason)
    status = requeue({task.pk: body.revision}, operator, using=request.using)[str(task.pk)]
    if status == "not_found":
        raise _not_found(request)
    return answer(RequeueAnswer(status=status))


STATUS = tuple(field.name for field in fields(TaskStatus))


def _status(task: Any) -> TaskStatus:
    members = {name: getattr(task, name) for name in STATUS if name not in ("queue", "program", "version")}
    return TaskStatus(queue=task.queue.name, program=task.program.name, version=task.program.version, **members)


def _find(request: Request, *, with_result: bool = False) -> Any:
    """Return the task if it is within the token's scope. Another tenant's is as good as none. Raises NotFound."""
    scope = request.caller
    rows: Any = Task.objects.using(request.using).with_state().select_related("queue", "program")
    rows = rows.defer("data", "result").filter(pk=request.named, tenant=scope.tenant, namespace=scope.namespace)
    if with_result:
        rows = rows.annotate(text=Cast("result", TextField()))
    if scope.queues:
        rows = rows.filter(queue__name__in=scope.queues)
    if (task := rows.first()) is None:
        raise _not_found(request)
    return task


def _not_found(request: Request) -> NotFound:
    return NotFound(f"Task {request.named} does not exist in the token's scope.")
