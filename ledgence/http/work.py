"""What workers ask for: their session, work, renewals and settlements."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from uuid import UUID

from ledgence.http.endpoint import Reply, Request, Topic, Wait, answer
from ledgence.http.limits import BATCH_MAX, CAPACITY_MAX, ENTRY_POINT_MAX, INT_MAX, NAMES_MAX
from ledgence.operations.acquire import check_acquire
from ledgence.operations.authorize import authorize
from ledgence_worker import limits
from ledgence_worker.bodies import (
    AuthorizationAnswer,
    AuthorizationAnswers,
    Done,
    Drained,
    RenewalAnswers,
    SettledAnswers,
)
from ledgence_worker.claims import Claim
from ledgence_worker.errors import InvalidInput
from ledgence_worker.identifiers import check_identifier
from ledgence_worker.protocol import Acquire, CatalogueEntry, OpenSession, Owner, Settlement


def open_session(request: Request) -> Reply:
    """Open a session in the token's scope, over the queues that both the token and the worker name."""
    body, scope = request.body, request.caller
    for what in ("name", "host", "version"):
        check_identifier(getattr(body, what), what=f"open session: {what}")
    limits.check_range("open session: pid", body.pid, 0, INT_MAX)
    for what in ("queues", "exclude_queues", "catalogue"):
        limits.check_range(f"open session: number of {what}", len(getattr(body, what)), 0, NAMES_MAX)
    for queue in (*body.queues, *body.exclude_queues):
        check_identifier(queue, what="open session: queue")
    for entry in body.catalogue:
        _check_entry(entry)
    for queue in body.queues:
        scope.require_queue(queue)
    command = OpenSession(
        session_id=request.named,
        name=body.name,
        host=body.host,
        pid=body.pid,
        version=body.version,
        concurrency=body.concurrency,
        tenant=scope.tenant,
        namespace=scope.namespace,
        queues=body.queues or tuple(sorted(scope.queues)),
        exclude_queues=body.exclude_queues,
        catalogue=body.catalogue,
    )
    return answer(request.service.open_session(command))


def _check_entry(entry: CatalogueEntry) -> None:
    check_identifier(entry.name, what="open session: program")
    check_identifier(entry.version, what="open session: program version")
    point = entry.entry_point
    if not 1 <= len(point) <= ENTRY_POINT_MAX or not point.isprintable():
        raise InvalidInput(
            f"open session: the entry point of {entry.name!r} must be 1-{ENTRY_POINT_MAX} printable characters."
        )


def extend_session(request: Request) -> Reply:
    """Extend the session to its full length from now."""
    return answer(request.service.extend_session(request.named))


def close_session(request: Request) -> Reply:
    """Close the session: it acquires nothing more."""
    request.service.close_session(request.named)
    return answer(Done())


def acquire(request: Request) -> Reply | None:
    """Settle ended attempts and take due work."""
    reply = request.service.try_acquire(command_of(request), is_last=request.is_last)
    if reply is None:
        return None
    # The worker's clock must not count for its leases what was before they were taken.
    return answer(replace(reply, held_seconds=request.held_seconds) if reply.assignments else reply)


def wait_for_work(request: Request) -> Wait | None:
    """Tell how long a request for work may wait: not at all with settlements, whose reply follows the commit."""
    command = command_of(request)
    if command.settlements or not command.wait_seconds:
        # The operation checks it, and may have megabytes of results to read for that.
        return None
    # Before the wait: it may end without a look of the operation's own.
    check_acquire(command)
    return Wait(seconds=command.wait_seconds, topic=Topic.WORK, key=command)


def command_of(request: Request) -> Acquire:
    """Return the protocol's command."""
    body = request.body
    _check_batch("settlements", body.settlements)
    limits.check_range("acquire: capacity", body.capacity, 0, limits.CONCURRENCY_MAX)
    return Acquire(
        session_id=request.named,
        channel=body.channel,
        sequence=body.sequence,
        capacity=min(body.capacity, CAPACITY_MAX),
        wait_seconds=body.wait_seconds,
        settlements=body.settlements,
    )


def claim(request: Request) -> Reply:
    """Take exactly the work that messages name."""
    body = request.body
    # No more than one reply carries.
    limits.check_range("claim: number of dispatches", len(body.dispatches), 1, limits.MESSAGES_MAX)
    command = Claim(
        session_id=request.named,
        channel=body.channel,
        sequence=body.sequence,
        dispatches=body.dispatches,
        authorize=body.authorize,
    )
    return answer(request.service.claim(command))


def quarantine(request: Request) -> Reply:
    """Record messages that can never be claimed."""
    request.service.quarantine(request.named, request.body.queue, request.body.messages)
    return answer(Done())


def settle(request: Request) -> Reply:
    """Settle ended attempts."""
    settlements = request.body.settlements
    _check_batch("settlements", settlements)
    return answer(SettledAnswers(settled=tuple(request.service.settle(request.named, settlements))))


def release(request: Request) -> Reply:
    """Give attempts back whose processes are gone."""
    return answer(SettledAnswers(settled=tuple(request.service.release(request.named, _owners(request)))))


def renew(request: Request) -> Reply:
    """Extend live leases."""
    return answer(RenewalAnswers(renewals=tuple(request.service.renew(request.named, _owners(request)))))


def authorize_attempts(request: Request) -> Reply:
    """Permit user code to start."""
    answers = authorize(request.named, _owners(request), using=request.using)
    return answer(
        AuthorizationAnswers(
            authorizations=tuple(
                AuthorizationAnswer(
                    task_id=one.owner.task_id,
                    number=one.owner.number,
                    is_granted=one.is_granted,
                    timeout_seconds=one.timeout_seconds,
                )
                for one in answers
            )
        )
    )


def is_drained(request: Request) -> Reply:
    """Tell whether the session's queues hold nothing that it could run."""
    return answer(Drained(is_drained=request.service.is_drained(request.named)))


def settled_tasks(request: Request) -> Iterable[UUID]:
    """Tell which tasks the settlements of a request may have ended."""
    return [settlement.task_id for settlement in request.body.settlements]


def released_tasks(request: Request) -> Iterable[UUID]:
    """Tell which tasks a release may have ended: those without a further attempt."""
    return [owner.task_id for owner in request.body.owners]


def _owners(request: Request) -> tuple[Owner, ...]:
    owners: tuple[Owner, ...] = request.body.owners
    _check_batch("owners", owners)
    return owners


def _check_batch(what: str, batch: Sequence[Owner | Settlement]) -> None:
    """Refuse a batch that is too large, or names an attempt that cannot be, or one twice."""
    limits.check_range(f"number of {what}", len(batch), 0, BATCH_MAX)
    for one in batch:
        limits.check_range(f"{what}: number", one.number, 1, INT_MAX)
    if len({(one.task_id, one.number) for one in batch}) != len(batch):
        raise InvalidInput(f"{what}: an attempt stands twice in one batch; send each once.")
