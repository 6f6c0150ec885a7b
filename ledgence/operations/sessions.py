"""Worker sessions: the identity of one worker process, with what it serves and can run."""

from collections.abc import Iterable, Sequence
from functools import partial
from uuid import UUID

from django.db.models.functions import Now

from ledgence import hints, sql
from ledgence.conf import get_settings
from ledgence.models import OperatorAction, WorkerSession
from ledgence.operations.actions import Answers, Operator, record, targets_of
from ledgence.operations.programs import Wanted, ensure_programs
from ledgence.transitions import transition
from ledgence_worker import limits
from ledgence_worker.errors import NotFound, SessionExpired
from ledgence_worker.protocol import ExternalQueue, OpenSession, Session


def open_session(command: OpenSession, *, using: str) -> Session:
    """Open the session of one worker process for SESSION_SECONDS. Replayed by its id while it is open.

    Makes the programs of its catalogue that are new. Raises Conflict when a known version has another entry point,
    InvalidInput, and SessionExpired when the id was used before and is over.
    """
    limits.check_range("open session: concurrency", command.concurrency, 1, limits.CONCURRENCY_MAX)
    with transition(using, what="open session"):
        own = command.tenant, command.namespace
        programs = ensure_programs(
            (Wanted(*own, e.name, e.version, e.entry_point) for e in command.catalogue), using=using
        )
        sql.run(
            "open_session",
            using,
            {
                "session": command.session_id,
                "tenant": command.tenant,
                "namespace": command.namespace,
                "name": command.name,
                "host": command.host,
                "pid": command.pid,
                "version": command.version,
                "concurrency": command.concurrency,
                "queues": list(command.queues),
                "exclude_queues": list(command.exclude_queues),
                "programs": programs,
                "session_seconds": get_settings().session_seconds,
            },
        )
        return _session(command.session_id, sql.run("find_session", using, {"session": command.session_id}))


def extend_session(session_id: UUID, *, using: str) -> Session:
    """Extend an open session to SESSION_SECONDS from now. Never revives. Raises NotFound, SessionExpired."""
    with transition(using, what="extend session"):
        parameters = {"session": session_id, "session_seconds": get_settings().session_seconds}
        sql.run("extend_session", using, parameters)
        return _session(session_id, sql.run("find_session", using, parameters))


def close_session(session_id: UUID, *, using: str) -> None:
    """Close a session: it acquires nothing more; its leases end by settlement or expiry. Replayed."""
    sql.run("close_session", using, {"session": session_id})


def drain(sessions: Iterable[UUID], operator: Operator, *, using: str) -> Answers:
    """Give sessions no more work, and let their workers drain: each hears of it with its next command or extension.

    What they run goes on, as after a signal. Answers by session id: draining, already, ended or not_found.
    """
    ids = sorted(set(sessions))
    decide = partial(_drain_held, ids, using=using)
    return record(operator, OperatorAction.Kind.DRAIN, targets_of(ids), decide, using=using)


def _drain_held(ids: Sequence[UUID], *, using: str) -> Answers:
    rows = WorkerSession.objects.using(using)
    locked = (
        rows.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk").values_list("pk", "drain_requested_at")
    )
    held = dict(locked)
    # In a statement after the lock: a worker may have closed its session meanwhile.
    asked = rows.open().filter(pk__in=held, drain_requested_at__isnull=True)
    draining = set(asked.values_list("pk", flat=True))
    rows.filter(pk__in=draining).update(drain_requested_at=Now())
    for session in draining:
        # Who waits for work in this process's reach looks again, and is told.
        [(_, served)] = sql.run("find_served_queues", using, {"session": session})
        hints.announce(set(served), using=using)
    answers = {str(pk): "already" if since else "ended" for pk, since in held.items()}
    answers |= dict.fromkeys(map(str, draining), "draining")
    return {str(pk): answers.get(str(pk), "not_found") for pk in ids}


def _session(session_id: UUID, rows: sql.Rows) -> Session:
    if not rows:
        raise NotFound(f"Worker session {session_id} does not exist; open one.")
    is_open, remaining, tenant, namespace, external_queues, drain_requested = rows[0]
    if not is_open:
        raise SessionExpired(f"Worker session {session_id} is closed or expired; open a new one.")
    settings = get_settings()
    return Session(
        session_id=session_id,
        lease_seconds=settings.lease_seconds,
        cleanup_seconds=settings.cleanup_seconds,
        remaining_seconds=remaining,
        tenant=tenant,
        namespace=namespace,
        external_queues=tuple(ExternalQueue(name=name, destination=at) for name, at in external_queues),
        drain_requested=drain_requested,
    )
