"""Running one task in this process, for a debugger: the same authority as in a worker, without the managed process."""

import asyncio
import inspect
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any
from uuid import uuid4

from django.db import Error, connections

from ledgence.api import get
from ledgence.bootstrap import close_abandoned_connections, load_programs
from ledgence.models import DeliveryIntent, Task
from ledgence.operations.authorize import authorize
from ledgence.operations.claim import claim
from ledgence.operations.renew import renew
from ledgence.operations.sessions import close_session, open_session
from ledgence.operations.settle import settle
from ledgence_worker import limits, programs, strict_json
from ledgence_worker.claims import Claim, ClaimStatus, Dispatch
from ledgence_worker.context import Context
from ledgence_worker.errors import LedgenceError, OwnershipLost
from ledgence_worker.event import event_bytes, parse_event
from ledgence_worker.failures import describe
from ledgence_worker.protocol import Assignment, OpenSession, Outcome, Report, Session, Settlement, SettleStatus

logger = logging.getLogger("ledgence.foreground")


class NotStarted(LedgenceError):
    """The task was not started here, and nothing of its program ran; the text says why."""


class EndRefused(LedgenceError):
    """The program ran, and its lease was over before its end was told: kept as late evidence, nothing changed."""


def run_once(task: str, *, using: str) -> str:
    """Claim a queued task by its id, run it here, settle it, and return a line that says what came of it.

    The lease is renewed while the program runs, also while a debugger holds it; no time-out is enforced. An exception
    is settled as in a worker and then raised, so that a debugger stops at it; after Ctrl-C the work is given back.
    Raises NotStarted when there is no such task, or it is not queued and due, and EndRefused.
    """
    load_programs()
    with _starting():
        row = Task.objects.using(using).select_related("queue").get(pk=get(task, using=using).id)
        session = _open_session(row, using=using)
    try:
        with _starting():
            assignment = _claim(row, session, using=using)
        stop = threading.Event()
        renewer = threading.Thread(target=_keep, args=(session, assignment, stop, using), daemon=True)
        renewer.start()
        try:
            return _run(assignment, session, using=using)
        finally:
            stop.set()
            renewer.join()
    finally:
        close_session(session.session_id, using=using)


@contextmanager
def _starting() -> Iterator[None]:
    """Tell what prevents the start apart from what the program itself raises."""
    try:
        yield
    except LedgenceError as error:
        raise NotStarted(str(error)) from error


def _open_session(row: Task, *, using: str) -> Session:
    return open_session(
        OpenSession(
            session_id=uuid4(),
            name="foreground",
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version("django-ledgence-worker"),
            concurrency=1,
            tenant=row.tenant,
            namespace=row.namespace,
            queues=(row.queue.name,),
            catalogue=programs.catalogue(),
        ),
        using=using,
    )


def _claim(row: Task, session: Session, *, using: str) -> Assignment:
    generation = DeliveryIntent.objects.using(using).filter(pk=row.pk).values_list("generation", flat=True).first()
    if generation is None:
        raise OwnershipLost(f"Task {row.pk} is not queued: it runs elsewhere or is terminal.")
    dispatch = Dispatch(task_id=row.pk, generation=generation)
    command = Claim(session_id=session.session_id, channel=0, sequence=1, dispatches=(dispatch,))
    claimed = claim(command, using=using)
    [answer] = claimed.answers
    if answer.status is not ClaimStatus.CLAIMED:
        raise OwnershipLost(f"Task {row.pk} generation {generation} was not claimed: {answer.status}.")
    [assignment] = claimed.assignments
    [authorization] = authorize(session.session_id, [assignment.owner], using=using)
    if not authorization.is_granted:
        raise OwnershipLost(f"Task {row.pk} attempt {assignment.number} was cancelled or expired before it began.")
    return assignment


def _keep(session: Session, assignment: Assignment, stop: threading.Event, using: str) -> None:
    while not stop.wait(session.lease_seconds / 4):
        try:
            renew(session.session_id, [assignment.owner], using=using)
        except Error as error:
            # The next renewal comes well before the lease ends.
            logger.warning("lease not renewed task=%s error=%s", assignment.task_id, error)
            connections[using].close()
    connections[using].close()


def _run(assignment: Assignment, session: Session, *, using: str) -> str:
    began = time.monotonic()
    outcome, result, report = Outcome.FAILED, None, Report()
    try:
        value = _call(assignment)
        result = strict_json.dumps(value, what="result", limit=limits.RESULT_BYTES)
        outcome = Outcome.SUCCEEDED
    except KeyboardInterrupt:
        # Whoever looks on has seen enough: the work is given back, as by a worker that is stopped.
        outcome = Outcome.INTERRUPTED
        raise
    except BaseException as error:
        report = Report(error=describe(error), seconds=time.monotonic() - began)
        raise
    finally:
        # A transaction that the program left open would be rolled back with the settlement in it.
        close_abandoned_connections()
        settlement = Settlement(
            task_id=assignment.task_id,
            number=assignment.number,
            token=assignment.token,
            outcome=outcome,
            result=result,
            report=report,
        )
        [settled] = settle(session.session_id, [settlement], using=using)
        if settled.status is not SettleStatus.ACCEPTED:
            logger.error("end not accepted task=%s status=%s", assignment.task_id, settled.status)
    if settled.status is not SettleStatus.ACCEPTED:
        raise EndRefused(
            f"Task {assignment.task_id} attempt {assignment.number} ended {outcome}, but its lease was over: "
            "its end is kept as late evidence, and nothing changed."
        )
    return f"task={assignment.task_id} attempt={assignment.number} outcome={outcome} consequence={settled.consequence}"


def _call(assignment: Assignment) -> Any:
    """Call the program as a managed process would. Any: a program returns any JSON."""
    program = programs.find(assignment.program, assignment.version)
    arguments: list[Any] = [parse_event(event_bytes(assignment))]
    if program.takes_context:
        arguments.append(
            Context(
                task_id=assignment.task_id,
                number=assignment.number,
                cause=assignment.cause,
                earlier=assignment.earlier,
                traceparent=assignment.traceparent,
            )
        )
    value = program.function(*arguments)
    return asyncio.run(_await(value)) if inspect.isawaitable(value) else value


async def _await(value: Any) -> Any:
    return await value
