"""Who acts on the ledger in tests: submitters, workers with a session, operators; and what is seen of the tasks."""

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol
from uuid import UUID, uuid4

from django.db import connections

from ledgence.api import get, submit_many
from ledgence.audit import audit
from ledgence.models import Attempt
from ledgence.new_task import NewTask
from ledgence.operations.acquire import acquire
from ledgence.operations.actions import Operator
from ledgence.operations.authorize import Authorization, authorize
from ledgence.operations.claim import claim
from ledgence.operations.due import DueSearch
from ledgence.operations.renew import renew
from ledgence.operations.sessions import open_session
from ledgence.operations.settle import release, settle
from ledgence_worker.claims import Claim, Claimed, ClaimStatus, Dispatch
from ledgence_worker.protocol import (
    Acquire,
    Acquired,
    Assignment,
    CatalogueEntry,
    ErrorReport,
    OpenSession,
    Outcome,
    Owner,
    Renewal,
    Report,
    Settled,
    Settlement,
)

USING = "default"
PROGRAM = "tests.work"
VERSION = "1"
CATALOGUE = (CatalogueEntry(name=PROGRAM, version=VERSION, entry_point="tests.programs:work"),)


def submit_here(tasks: Sequence[NewTask], using: str) -> list[UUID]:
    """Submit as an application does that has the database."""
    return [handle.id for handle in submit_many(tasks, using=using)]


#: How tasks are submitted. Other transports run the same tests.
submitter: ContextVar[Callable[[Sequence[NewTask], str], list[UUID]]] = ContextVar("submitter", default=submit_here)


def submit_tasks(count: int = 1, *, data: Any = None, using: str = USING, **options: Any) -> list[UUID]:
    """Submit tasks of the tests' program and return their ids, in the order in which they will be due."""
    options = {"program": PROGRAM, "version": VERSION} | options
    return submitter.get()([NewTask(data=data, **options)] * count, using)


def submit_task(**options: Any) -> UUID:
    return submit_tasks(**options)[0]


def owner_of(item: Assignment | Owner) -> Owner:
    return item.owner if isinstance(item, Assignment) else item


def statuses_of(reply: Claimed) -> dict[tuple[UUID, int], ClaimStatus]:
    """Return a claim's answers by task and generation."""
    return {(answer.task_id, answer.generation): answer.status for answer in reply.answers}


def settlement_of(
    item: Assignment | Owner, outcome: Outcome = Outcome.SUCCEEDED, *, result: str | None = "null", **report: Any
) -> Settlement:
    owner = owner_of(item)
    return Settlement(
        task_id=owner.task_id,
        number=owner.number,
        token=owner.token,
        outcome=outcome,
        result=result if outcome is Outcome.SUCCEEDED else None,
        report=Report(**report),
    )


def raised(*classes: str, message: str = "no") -> ErrorReport:
    """Return the report of an exception of the first class, whose bases are the others."""
    return ErrorReport(classes=classes, message=message, traceback="")


class Ledger(Protocol):
    """How a worker reaches the ledger: the operations, or something that stands before them."""

    def open_session(self, command: OpenSession) -> object: ...
    def acquire(self, command: Acquire, search: DueSearch, *, record_empty: bool) -> Acquired | None: ...
    def claim(self, command: Claim) -> Claimed: ...
    def settle(self, session_id: UUID, settlements: Sequence[Settlement]) -> list[Settled]: ...
    def release(self, session_id: UUID, owners: Sequence[Owner]) -> list[Settled]: ...
    def renew(self, session_id: UUID, owners: Sequence[Owner]) -> list[Renewal]: ...
    def authorize(self, session_id: UUID, owners: Sequence[Owner]) -> list[Authorization]: ...


class Operations:
    """The operations, called in this process."""

    def __init__(self, using: str) -> None:
        self.open_session = partial(open_session, using=using)
        self.claim = partial(claim, using=using)
        self.settle = partial(settle, using=using)
        self.release = partial(release, using=using)
        self.renew = partial(renew, using=using)
        self.authorize = partial(authorize, using=using)
        self._using = using

    def acquire(self, command: Acquire, search: DueSearch, *, record_empty: bool) -> Acquired | None:
        return acquire(command, using=self._using, search=search, record_empty=record_empty)


#: Makes what workers reach the ledger by, on a database. Other transports run the same tests.
transport: ContextVar[Callable[[str], Ledger]] = ContextVar("transport", default=Operations)


class Worker:
    """One worker session, which counts its channel's sequences as a worker process does."""

    def __init__(
        self,
        *,
        queues: Iterable[str] = (),
        exclude_queues: Iterable[str] = (),
        catalogue: tuple[CatalogueEntry, ...] = CATALOGUE,
        tenant: str = "default",
        namespace: str = "default",
        using: str = USING,
    ) -> None:
        self.using = using
        self.session_id = uuid4()
        self.sequence = 0
        self.search = DueSearch()
        self.opening = OpenSession(
            session_id=self.session_id,
            name="tests",
            host="localhost",
            pid=1,
            version="0",
            concurrency=8,
            tenant=tenant,
            namespace=namespace,
            queues=tuple(queues),
            exclude_queues=tuple(exclude_queues),
            catalogue=catalogue,
        )
        self.ledger = transport.get()(using)
        self.ledger.open_session(self.opening)

    def send(
        self,
        sequence: int,
        capacity: int = 1,
        *,
        channel: int = 0,
        settlements: Sequence[Settlement] = (),
        record_empty: bool = True,
    ) -> Acquired | None:
        """Send an acquire command with any sequence."""
        command = Acquire(
            session_id=self.session_id,
            channel=channel,
            sequence=sequence,
            capacity=capacity,
            settlements=tuple(settlements),
        )
        return self.ledger.acquire(command, self.search, record_empty=record_empty)

    def acquire(self, capacity: int = 1, *, settlements: Sequence[Settlement] = ()) -> list[Assignment]:
        """Acquire with the next sequence."""
        reply = self.send(self.sequence + 1, capacity, settlements=settlements)
        assert reply is not None
        self.sequence += 1
        return list(reply.assignments)

    def acquire_one(self) -> Assignment:
        [assignment] = self.acquire(1)
        return assignment

    def claim(self, *dispatches: tuple[UUID, int], sequence: int | None = None) -> Claimed:
        """Claim by name with the next sequence, or with the given one."""
        command = Claim(
            session_id=self.session_id,
            channel=0,
            sequence=sequence or self.sequence + 1,
            dispatches=tuple(Dispatch(task_id=task, generation=generation) for task, generation in dispatches),
        )
        reply = self.ledger.claim(command)
        if sequence is None:
            self.sequence += 1
        return reply

    def settle(
        self,
        item: Assignment | Owner,
        outcome: Outcome = Outcome.SUCCEEDED,
        *,
        result: str | None = "null",
        **report: Any,
    ) -> Settled:
        [answer] = self.ledger.settle(self.session_id, [settlement_of(item, outcome, result=result, **report)])
        return answer

    def release(self, *items: Assignment | Owner) -> list[Settled]:
        return self.ledger.release(self.session_id, [owner_of(item) for item in items])

    def renew(self, item: Assignment | Owner) -> Renewal:
        [answer] = self.ledger.renew(self.session_id, [owner_of(item)])
        return answer

    def authorize(self, item: Assignment | Owner) -> Authorization:
        [answer] = self.ledger.authorize(self.session_id, [owner_of(item)])
        return answer


def operator(reason: str = "because") -> Operator:
    """Return an operator with a new action id."""
    return Operator(action_id=uuid4(), name="op", reason=reason)


def state_of(task: UUID, *, using: str = USING) -> str:
    return str(get(task, using=using).state)


def attempts_of(task: UUID, *, using: str = USING) -> list[Attempt]:
    return list(Attempt.objects.using(using).filter(task_id=task).order_by("number"))


def outcomes_of(task: UUID, *, using: str = USING) -> list[str | None]:
    return [attempt.outcome for attempt in attempts_of(task, using=using)]


def execute(statement: str, parameters: Any = None, *, using: str = USING) -> list[tuple[Any, ...]]:
    """Execute SQL of a test: what no operation does."""
    with connections[using].cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall() if cursor.description is not None else []


def expire_leases(*tasks: UUID) -> None:
    """Let leases of the named tasks (of all, when none is named) be over since a second."""
    _since_a_second("ledgence_lease", "expires_at", tasks)


def make_due(*tasks: UUID) -> None:
    """Let intents of the named tasks (of all, when none is named) be due since a second."""
    _since_a_second("ledgence_deliveryintent", "available_at", tasks)


def _since_a_second(table: str, column: str, tasks: tuple[UUID, ...]) -> None:
    # Table and column are the two above.
    statement = (
        f"update {table} set {column} = clock_timestamp() - interval '1 s' where %s or task_id = any(%s::uuid[])"  # noqa: S608
    )
    execute(statement, [not tasks, list(tasks)])


def assert_audit_clean(*, using: str = USING) -> None:
    assert [(violation.invariant, violation.ids) for violation in audit(using=using)] == []
