"""Every endpoint of the task service: what it is called, who may call it, and what goes in and out."""

from ledgence.http import health, parameters, tasks, work
from ledgence.http.descriptions import INT_MAX
from ledgence.http.endpoint import Endpoint, Lane
from ledgence.models import State
from ledgence.tokens import Role
from ledgence_worker import limits
from ledgence_worker.bodies import (
    AcquireBody,
    AuthorizationAnswers,
    CancelAnswer,
    Done,
    Drained,
    Health,
    NewSessionBody,
    NewTaskBody,
    NewTasksBody,
    OwnersBody,
    RenewalAnswers,
    RequeueAnswer,
    RequeueBody,
    SettledAnswers,
    SettlementsBody,
    Submitted,
    SubmittedTasks,
    TaskAttempts,
    TaskPage,
    TaskResult,
    TaskStatus,
)
from ledgence_worker.limits import SETTLE_BYTES, SUBMIT_BYTES
from ledgence_worker.protocol import Acquired, Session

SUBMIT = (Role.SUBMIT,)
WORK = (Role.WORK,)
OPERATE = (Role.OPERATE,)
#: Whoever submits may see what became of it, and so may whoever operates.
LOOK = (Role.SUBMIT, Role.OPERATE)

TASKS = (
    Endpoint(
        name="submit",
        method="POST",
        path="tasks",
        summary="Submit a task",
        handler=tasks.submit,
        roles=SUBMIT,
        body=NewTaskBody,
        body_bytes=SUBMIT_BYTES,
        reply=Submitted,
        statuses=(200, 201),
    ),
    Endpoint(
        name="submit_batch",
        method="POST",
        path="tasks/batch",
        summary="Submit up to 1,000 tasks, all or none",
        handler=tasks.submit_batch,
        roles=SUBMIT,
        body=NewTasksBody,
        body_bytes=SUBMIT_BYTES,
        reply=SubmittedTasks,
    ),
    Endpoint(
        name="list_tasks",
        method="GET",
        path="tasks",
        summary="List tasks, newest first",
        handler=tasks.list_tasks,
        roles=LOOK,
        reply=TaskPage,
        query={
            "state": parameters.one_of("Only tasks in this state.", State.values),
            "queue": parameters.identifier("Only tasks of this queue."),
            "program": parameters.text("Only tasks of this program."),
            "idempotency_key": parameters.text("Only the task with this idempotency key."),
            "correlation_key": parameters.text("Only tasks with this correlation key."),
            "cursor": parameters.uuid("The next_cursor of the page before."),
            "limit": parameters.whole_number("How many tasks at most.", 1, tasks.PAGE_MAX),
        },
    ),
    Endpoint(
        name="status",
        method="GET",
        path="tasks/{id}",
        summary="Tell how a task stands",
        handler=tasks.status,
        roles=LOOK,
        reply=TaskStatus,
    ),
    Endpoint(
        name="result",
        method="GET",
        path="tasks/{id}/result",
        summary="Tell a task's result, waiting for its end if asked to",
        handler=tasks.result,
        roles=LOOK,
        reply=TaskResult,
        query={"wait": parameters.number("How many seconds to wait for the end.", 0, limits.WAIT_SECONDS_MAX)},
        wait=tasks.wait_for_end,
    ),
    Endpoint(
        name="attempts",
        method="GET",
        path="tasks/{id}/attempts",
        summary="List the attempts of a task",
        handler=tasks.attempts,
        roles=LOOK,
        reply=TaskAttempts,
        query={
            "from": parameters.whole_number(
                "The number of the first attempt to list; the next_number of the page before.", 1, INT_MAX
            )
        },
    ),
    Endpoint(
        name="cancel",
        method="POST",
        path="tasks/{id}/cancel",
        summary="Cancel a task",
        handler=tasks.cancel_task,
        roles=LOOK,
        reply=CancelAnswer,
    ),
    Endpoint(
        name="requeue",
        method="POST",
        path="tasks/{id}/requeue",
        summary="Make a failed or cancelled task ready again",
        handler=tasks.requeue_task,
        roles=OPERATE,
        body=RequeueBody,
        reply=RequeueAnswer,
    ),
)

SESSIONS = (
    Endpoint(
        name="open_session",
        method="PUT",
        path="sessions/{id}",
        summary="Open the session of a worker process under an id that it chose",
        handler=work.open_session,
        roles=WORK,
        lane=Lane.WORK,
        body=NewSessionBody,
        reply=Session,
    ),
    Endpoint(
        name="extend_session",
        method="POST",
        path="sessions/{id}/extend",
        summary="Extend a session to its full length from now",
        handler=work.extend_session,
        roles=WORK,
        lane=Lane.WORK,
        reply=Session,
    ),
    Endpoint(
        name="close_session",
        method="POST",
        path="sessions/{id}/close",
        summary="Close a session",
        handler=work.close_session,
        roles=WORK,
        lane=Lane.WORK,
        reply=Done,
    ),
    Endpoint(
        name="acquire",
        method="POST",
        path="sessions/{id}/acquire",
        summary="Settle ended attempts and take due work, waiting for some if asked to",
        handler=work.acquire,
        roles=WORK,
        lane=Lane.WORK,
        body=AcquireBody,
        body_bytes=SETTLE_BYTES,
        reply=Acquired,
        wait=work.wait_for_work,
    ),
    Endpoint(
        name="authorize",
        method="POST",
        path="sessions/{id}/authorize",
        summary="Permit user code to start",
        handler=work.authorize_attempts,
        roles=WORK,
        lane=Lane.WORK,
        body=OwnersBody,
        reply=AuthorizationAnswers,
    ),
    Endpoint(
        name="renew",
        method="POST",
        path="sessions/{id}/renew",
        summary="Extend live leases",
        handler=work.renew,
        roles=WORK,
        lane=Lane.RENEW,
        body=OwnersBody,
        reply=RenewalAnswers,
    ),
    Endpoint(
        name="settle",
        method="POST",
        path="sessions/{id}/settle",
        summary="Settle ended attempts",
        handler=work.settle,
        roles=WORK,
        lane=Lane.WORK,
        body=SettlementsBody,
        body_bytes=SETTLE_BYTES,
        reply=SettledAnswers,
    ),
    Endpoint(
        name="release",
        method="POST",
        path="sessions/{id}/release",
        summary="Give attempts back whose processes are gone",
        handler=work.release,
        roles=WORK,
        lane=Lane.WORK,
        body=OwnersBody,
        reply=SettledAnswers,
    ),
    Endpoint(
        name="is_drained",
        method="GET",
        path="sessions/{id}/drained",
        summary="Tell whether the session's queues hold nothing that it could run",
        handler=work.is_drained,
        roles=WORK,
        lane=Lane.WORK,
        reply=Drained,
    ),
)

HEALTH = (
    Endpoint(
        name="live",
        method="GET",
        path="health/live",
        summary="Tell that the process answers",
        handler=health.live,
        lane=None,
        reply=Health,
    ),
    Endpoint(
        name="ready",
        method="GET",
        path="health/ready",
        summary="Tell whether requests would succeed, and if not, why",
        handler=health.ready,
        # Its own answer must not wait behind others, nor theirs behind it.
        lane=Lane.READY,
        kept_seconds=1.0,
        reply=Health,
        statuses=(200, 503),
    ),
)

ENDPOINTS = (*TASKS, *SESSIONS, *HEALTH)
