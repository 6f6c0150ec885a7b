"""What fails in the middle and at the end of a worker's batch: nothing of it stands, nobody is told otherwise."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connections

from ledgence.models import Attempt, Lease
from ledgence.service import DatabaseTaskService
from ledgence_worker.errors import Busy, InvalidInput, Unavailable
from ledgence_worker.protocol import Acquire, OpenSession, SettleStatus
from tests.ledger.actors import CATALOGUE, USING, assert_audit_clean, execute, settlement_of, state_of, submit_tasks
from tests.ledger.rivals import Rival

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def service() -> Iterator[DatabaseTaskService]:
    before = connections[USING]
    made = DatabaseTaskService(USING)
    yield made
    made.interrupt()
    made.close()
    connections[USING] = before


@pytest.fixture
def session(service: DatabaseTaskService) -> UUID:
    command = OpenSession(
        session_id=uuid4(),
        name="worker",
        host="localhost",
        pid=1,
        version="1",
        concurrency=4,
        tenant="default",
        namespace="default",
        catalogue=CATALOGUE,
    )
    return service.open_session(command).session_id


@pytest.fixture
def rival() -> Iterator[Rival]:
    with Rival() as made:
        yield made


def command(session: UUID, sequence: int, capacity: int = 4, **options: Any) -> Acquire:
    return Acquire(session_id=session, channel=0, sequence=sequence, capacity=capacity, **options)


@contextmanager
def trap(rival: Rival, table: str, event: str, action: str, *, deferred: bool = False) -> Iterator[None]:
    """Let rows of a table raise or cost something, at once or at the commit."""
    # The parts of the statement are those below.
    rival.execute(
        f"create function attack() returns trigger language plpgsql as $$ begin {action}; return null; end $$"
    )
    kind = "constraint trigger" if deferred else "trigger"
    when = "deferrable initially deferred" if deferred else ""
    rival.execute(f"create {kind} attack after {event} on {table} {when} for each row execute function attack()")
    try:
        yield
    finally:
        rival.execute("drop function attack cascade")


def fail(code: str) -> str:
    return f"raise exception 'attack' using errcode = '{code}'"


#: Where in a batch it fails: in the settlement, in the taking, in the last statement, which nobody fetches, and in the
#: commit.
PLACES = {
    "settlement": ("ledgence_attempt", "update", False),
    "taking": ("ledgence_attempt", "insert", False),
    "last": ("ledgence_channel", "update", False),
    "commit": ("ledgence_channel", "update", True),
}
ERRORS = {"40P01": Busy, "57014": Unavailable, "53100": Unavailable, "0A000": Unavailable, "22P05": InvalidInput}
CASES = [(place, code) for place in PLACES for code in ("40P01", "57014")] + [
    ("last", "53100"),
    ("last", "0A000"),
    ("settlement", "22P05"),
]


@pytest.mark.parametrize(("place", "code"), CASES)
def test_a_failure_anywhere_is_told_and_leaves_nothing(service, session, rival, place: str, code: str):
    table, event, deferred = PLACES[place]
    submit_tasks(4)
    held = service.acquire(command(session, 1, 2)).assignments
    again = command(session, 2, 2, settlements=tuple(map(settlement_of, held)))
    with trap(rival, table, event, fail(code), deferred=deferred), pytest.raises(ERRORS[code]):
        service.acquire(again)
    assert rival.do(lambda: sorted(Lease.objects.values_list("pk", flat=True))) == sorted(a.task_id for a in held)
    assert rival.do(Attempt.objects.count) == 2
    reply = service.acquire(again)
    assert [s.status for s in reply.settled] == [SettleStatus.ACCEPTED] * 2
    assert len(reply.assignments) == 2
    rival.do(assert_audit_clean)


@pytest.mark.parametrize(
    "cut",
    [
        "deallocate all",
        "discard all",
        "alter table ledgence_deliveryintent add column later int",
        "alter table ledgence_channel alter sequence type int",
    ],
)
def test_what_was_prepared_may_go(service, session, rival, cut: str):
    """A command that fails for it is repeated on a new connection: at most one answer is lost."""
    submit_tasks(8)
    for sequence in range(1, 3):
        service.acquire(command(session, sequence, 2))
    execute(cut) if cut.startswith("d") else rival.execute(cut)
    try:
        reply = until_available(lambda: service.acquire(command(session, 3, 2)))
        assert len(reply.assignments) == 2
    finally:
        rival.execute("alter table ledgence_deliveryintent drop column if exists later")
        rival.execute("alter table ledgence_channel alter sequence type bigint")


def until_available(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Unavailable:
        return call()


def test_a_connection_that_ends_inside_a_batch(service, session, rival):
    submit_tasks(2)
    held = service.acquire(command(session, 1)).assignments
    ends = tuple(map(settlement_of, held))
    [(pid,)] = execute("select pg_backend_pid()")
    with trap(rival, "ledgence_attempt", "update", f"perform pg_terminate_backend({pid})"), pytest.raises(Unavailable):
        service.settle(session, ends)
    assert [s.status for s in service.settle(session, ends)] == [SettleStatus.ACCEPTED] * 2
    assert state_of(held[0].task_id) == "succeeded"


def test_a_connection_that_ends_between_the_commands(service, session, rival):
    submit_tasks(2)
    held = service.acquire(command(session, 1)).assignments
    [(pid,)] = execute("select pg_backend_pid()")
    rival.execute(f"select pg_terminate_backend({pid}, 5000)")
    answers = until_available(lambda: service.settle(session, tuple(map(settlement_of, held))))
    assert [s.status for s in answers] == [SettleStatus.ACCEPTED] * 2


@pytest.mark.parametrize("data", ["%s %(x)s %% $1", "'; drop table ledgence_task; --", "\\'\n{}"])
def test_hostile_text_travels_in_batches(service, session, data):
    submit_tasks(data=data, queue="q'\"\\%s")
    [item] = service.acquire(command(session, 1)).assignments
    assert item.queue == "q'\"\\%s"
    result = item.data
    [answer] = service.settle(session, [settlement_of(item, result=result, output=data + "\\")])
    assert answer.status is SettleStatus.ACCEPTED
    assert execute("select result::text from ledgence_task") == [(result,)]
