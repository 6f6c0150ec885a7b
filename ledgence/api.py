"""What applications call: submit work, and get at it again."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Unpack
from uuid import UUID

from asgiref.sync import sync_to_async
from django.utils import timezone

from ledgence.conf import get_settings
from ledgence.handle import TaskHandle
from ledgence.models import Task
from ledgence.new_task import NewTask, SubmitOptions
from ledgence.operations.submit import submit as submit_batch
from ledgence.policy import resolve
from ledgence.submission import Submission, Terms
from ledgence_worker import limits, strict_json
from ledgence_worker.errors import InvalidInput, NotFound
from ledgence_worker.identifiers import check_identifier
from ledgence_worker.programs import Defaults, Program, Unset, catalogue, find, retry_words

TRACEPARENT = re.compile("[!-~]{1,55}")
PRIORITIES = range(limits.PRIORITY_MIN, limits.PRIORITY_MAX + 1)
# A later one would be year 10000 somewhere, which Python cannot read back: a row that no page could show.
RUN_AFTER_MAX = datetime(9999, 12, 30, tzinfo=UTC)


def submit(
    program: Program[Any] | str, data: Any = None, *, using: str | None = None, **options: Unpack[SubmitOptions]
) -> TaskHandle:
    """Submit one task in the caller's transaction: it exists exactly if that commits.

    ``data`` is strict JSON (at most 1 MiB, 64 deep); the options are those of SubmitOptions. What is not given comes
    from the program, then from the settings. Raises InvalidInput before anything is written,
    Conflict, and Busy when another transaction holds the same key; the transaction stays usable after each.
    """
    return submit_many([NewTask(program=program, data=data, **options)], using=using)[0]


def submit_many(tasks: Iterable[NewTask], *, using: str | None = None) -> list[TaskHandle]:
    """Submit many tasks, all or none, one statement a thousand. Everything else is as with submit()."""
    database = using or get_settings().database
    validated: dict[tuple[Any, ...], Terms] = {}
    submissions = [_submission(task, validated) for task in tasks]
    return [
        TaskHandle(id=submitted.task_id, using=database, is_new=submitted.is_new)
        for submitted in submit_batch(submissions, using=database)
    ]


async def asubmit(
    program: Program[Any] | str, data: Any = None, *, using: str | None = None, **options: Unpack[SubmitOptions]
) -> TaskHandle:
    """Submit one task, as submit() does."""
    return await sync_to_async(submit)(program, data, using=using, **options)


async def asubmit_many(tasks: Iterable[NewTask], *, using: str | None = None) -> list[TaskHandle]:
    """Submit many tasks, as submit_many() does."""
    return await sync_to_async(submit_many)(tasks, using=using)


def get(task_id: UUID | str, *, using: str | None = None) -> TaskHandle:
    """Return the handle of an existing task. Raises NotFound, and InvalidInput for an id that is no UUID."""
    database = using or get_settings().database
    try:
        # Of anything else the text decides, so that whatever is no UUID is told in the same way.
        pk = task_id if isinstance(task_id, UUID) else UUID(str(task_id))
    except ValueError:
        raise InvalidInput(f"Task id {str(task_id)[:80]!r} is not a UUID.") from None
    if not Task.objects.using(database).filter(pk=pk).exists():
        raise NotFound(f"Task {pk} does not exist in database {database!r}.")
    return TaskHandle(id=pk, using=database)


async def aget(task_id: UUID | str, *, using: str | None = None) -> TaskHandle:
    """Return the handle of an existing task, as get() does."""
    return await sync_to_async(get)(task_id, using=using)


def _submission(task: NewTask, validated: dict[tuple[Any, ...], Terms]) -> Submission:
    try:
        terms = validated.get(task.terms)
    except TypeError:
        # No valid term is unhashable, so this says which one is wrong.
        terms = _validate(task)
    else:
        if terms is None:
            terms = validated[task.terms] = _validate(task)
    return Submission(
        terms=terms,
        data=strict_json.dumps(task.data, what="data", limit=limits.DATA_BYTES),
        idempotency_key=_check_key(task.idempotency_key, "idempotency_key"),
        correlation_key=_check_key(task.correlation_key, "correlation_key"),
        traceparent=_check_traceparent(task.traceparent),
    )


def _validate(task: NewTask) -> Terms:
    settings = get_settings()
    program = _find_program(task.program, task.version)
    name, version = (program.name, program.version) if program else (task.program, task.version)
    defaults = program.defaults if program else Defaults()
    queue = defaults.queue if task.queue is None and not isinstance(defaults.queue, Unset) else task.queue
    if type(task.priority) is not int or task.priority not in PRIORITIES:
        raise InvalidInput(f"priority must be a whole number from -100 to 100, not {task.priority!r}.")
    given = Defaults(
        timeout_seconds=task.timeout,
        max_attempts=task.max_attempts,
        backoff=task.backoff,
        retry_on=task.retry_on if isinstance(task.retry_on, Unset) else retry_words(task.retry_on),
    )
    return Terms(
        program=check_identifier(name, what="program"),
        version=check_identifier(version, what="version"),
        entry_point=program.entry_point if program else None,
        tenant=check_identifier(settings.tenant if task.tenant is None else task.tenant, what="tenant"),
        namespace=check_identifier(settings.namespace if task.namespace is None else task.namespace, what="namespace"),
        queue=check_identifier(settings.queue if queue is None else queue, what="queue"),
        priority=task.priority,
        policy=resolve(given, defaults),
        run_after=None if task.run_after is None else _check_moment(task.run_after),
    )


def _find_program(program: Program[Any] | str, version: str | None) -> Program[Any] | None:
    """Return the registered program; None when this process only knows its name and version."""
    if isinstance(program, Program):
        if version not in (None, program.version):
            raise InvalidInput(f"{program!r} is version {program.version}; submit it by name for another version.")
        return program
    if not isinstance(program, str):
        raise InvalidInput(
            f"program must be a registered program or its name, not {type(program).__name__}: "
            "a function becomes one by @ledgence.program."
        )
    versions = [entry.version for entry in catalogue() if entry.name == program]
    if version is None:
        if len(versions) != 1:
            known = f"has the versions {', '.join(versions)}" if versions else "is not registered in this process"
            raise InvalidInput(f"Program {program!r} {known}: say which version to submit.")
        version = versions[0]
    return find(program, version) if version in versions else None


def _check_moment(run_after: object) -> datetime:
    """Return the moment in UTC, the one spelling that the database always takes."""
    if not isinstance(run_after, datetime) or timezone.is_naive(run_after):
        raise InvalidInput("run_after must be an aware datetime: a naive one means another moment on another machine.")
    try:
        moment = run_after.astimezone(UTC)
    except OverflowError:
        # Year 0 has been, and year 10000 is told below.
        moment = datetime.min.replace(tzinfo=UTC) if run_after.year == 1 else datetime.max.replace(tzinfo=UTC)
    if moment > RUN_AFTER_MAX:
        raise InvalidInput(f"run_after is {run_after}; at most {RUN_AFTER_MAX} can be shown in every time zone.")
    return moment


def _check_key(key: object, what: str) -> str | None:
    if key is None:
        return None
    if not isinstance(key, str) or not key or not key.isprintable():
        raise InvalidInput(f"{what} must be printable text, not {key!r:.80}.")
    if len(key.encode()) > limits.KEY_BYTES:
        raise InvalidInput(f"{what} has {len(key.encode())} bytes; at most {limits.KEY_BYTES} are accepted.")
    return key


def _check_traceparent(traceparent: object) -> str | None:
    if traceparent is None:
        return None
    if not isinstance(traceparent, str) or not TRACEPARENT.fullmatch(traceparent):
        raise InvalidInput("traceparent must be a W3C trace context of at most 55 characters.")
    return traceparent
