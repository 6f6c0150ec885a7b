"""The task service in process: a worker's own connections, which send several statements at once."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections

from ledgence import service as module
from ledgence.service import DatabaseTaskService
from ledgence_worker.errors import Busy, InvalidInput, OutOfOrder, SessionExpired, Unavailable
from ledgence_worker.protocol import Acquire, OpenSession, Outcome, Owner, SettleStatus
from tests.ledger.actors import CATALOGUE, USING, settlement_of, submit_tasks
from tests.ledger.rivals import Rival

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def service() -> Iterator[DatabaseTaskService]:
    """A service whose calls run on a worker's connection, and the test's own connection back afterwards."""
    before = connections[USING]
    made = DatabaseTaskService(USING)
    yield made
    made.interrupt()
    made.close()
    connections[USING] = before


@pytest.fixture
def session(service: DatabaseTaskService):
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


def own_connection() -> Any:
    """The calling thread's connection. Any: a worker's has attributes of its own."""
    return connections[USING]


def command(session, sequence: int, capacity: int = 4, **options) -> Acquire:
    return Acquire(session_id=session, channel=0, sequence=sequence, capacity=capacity, **options)


def test_settles_and_acquires_in_one_command_and_repeats_both(service, session):
    submit_tasks(6)
    first = service.acquire(command(session, 1))
    ends = tuple(settlement_of(a) for a in first.assignments)
    second = service.acquire(command(session, 2, settlements=ends))
    again = service.acquire(command(session, 2, settlements=ends))
    assert [s.status for s in second.settled] == [SettleStatus.ACCEPTED] * 4
    assert [a.token for a in again.assignments] == [a.token for a in second.assignments]
    assert again.settled == second.settled
    assert len(second.assignments) == 2


def test_the_statements_of_a_command_travel_together(service, session):
    submit_tasks(2)
    service.acquire(command(session, 1, capacity=1))
    assert own_connection().can_batch
    assert own_connection().batch is None


def test_a_lock_that_is_not_free_is_busy_and_the_connection_goes_on(service, session):
    tasks = submit_tasks(2)
    assignments = service.acquire(command(session, 1)).assignments
    ends = tuple(settlement_of(a) for a in assignments)
    with Rival() as rival, rival.transaction():
        rival.execute("select 1 from ledgence_lease where task_id = %s for update", [tasks[0]])
        with pytest.raises(Busy):
            service.acquire(command(session, 2, settlements=ends))
        with pytest.raises(Busy):
            service.settle(session, ends)
    assert [s.status for s in service.settle(session, ends)] == [SettleStatus.ACCEPTED] * 2


def test_an_order_that_is_broken_settles_nothing(service, session):
    submit_tasks(1)
    [assignment] = service.acquire(command(session, 1)).assignments
    end = settlement_of(assignment)
    with pytest.raises(OutOfOrder):
        service.acquire(command(session, 5, settlements=(end,)))
    other = settlement_of(assignment, Outcome.FAILED, result=None)
    assert service.settle(session, [other])[0].status is SettleStatus.ACCEPTED


def test_a_closed_session_acquires_nothing_and_settles_what_it_has(service, session):
    submit_tasks(2)
    [assignment] = service.acquire(command(session, 1, capacity=1)).assignments
    service.close_session(session)
    with pytest.raises(SessionExpired):
        service.acquire(command(session, 2))
    assert service.settle(session, [settlement_of(assignment)])[0].status is SettleStatus.ACCEPTED


def test_late_ends_and_owners_that_do_not_exist_are_told_apart(service, session):
    submit_tasks(1)
    [assignment] = service.acquire(command(session, 1)).assignments
    unknown = settlement_of(Owner(task_id=uuid4(), number=1, token=uuid4()))
    answers = service.settle(session, [settlement_of(assignment), unknown])
    assert [a.status for a in answers] == [SettleStatus.ACCEPTED, SettleStatus.NOT_FOUND]


def test_a_database_that_is_away_is_unavailable_and_the_next_call_connects_anew(service, session):
    submit_tasks(1)
    service.acquire(command(session, 1, capacity=0))
    pid = connections[USING].connection.info.backend_pid
    with Rival() as rival:
        rival.execute("select pg_terminate_backend(%s)", [pid])
    with pytest.raises(Unavailable):
        service.acquire(command(session, 2))
    assert len(service.acquire(command(session, 2)).assignments) == 1


def test_tables_that_are_not_there_are_told_with_what_to_do(service, monkeypatch):
    def ask_for_what_is_not_there(command, *, using):
        connections[using].cursor().execute("select 1 from ledgence_not_there")

    monkeypatch.setattr(module, "open_session", ask_for_what_is_not_there)
    with pytest.raises(InvalidInput, match='"ledgence_not_there" does not exist.*run manage.py migrate'):
        service.open_session(None)


def test_bad_input_is_refused_before_anything_is_sent(service, session):
    with pytest.raises(InvalidInput):
        service.acquire(command(session, 1, capacity=-1))
    assert own_connection().batch is None


def test_a_wait_ends_with_an_interruption_and_its_empty_answer_is_recorded(service, session):
    service.interrupt()
    assert service.acquire(command(session, 1, wait_seconds=20)).assignments == ()
    submit_tasks(1)
    assert service.acquire(command(session, 1, wait_seconds=20)).assignments == ()


def test_rows_are_committed_when_the_call_returns(service, session):
    submit_tasks(1)
    [assignment] = service.acquire(command(session, 1)).assignments
    service.settle(session, [settlement_of(assignment)])
    with Rival() as rival:
        assert rival.execute("select outcome from ledgence_task where id = %s", [assignment.task_id]) == [
            ("succeeded",)
        ]
    assert not connections[USING].in_atomic_block
