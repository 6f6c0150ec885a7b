"""Housekeeping: it ends what has expired, soon, and outlives its own failures."""

import threading

import pytest
from django.db import OperationalError, connections

from ledgence import housekeeping as module
from ledgence.housekeeping import Housekeeping
from tests.ledger.actors import USING, Worker, execute, submit_task

pytestmark = pytest.mark.django_db(transaction=True)

DEADLINE_SECONDS = 20.0


@pytest.fixture
def housekeeping():
    """Housekeeping that may run on the test's own thread, whose connection is given back afterwards."""
    before = connections[USING]
    made = Housekeeping(USING)
    yield made
    made.close()
    connections[USING] = before


def test_a_turn_ends_expired_leases_and_returns_when_the_next_is_due(housekeeping, monkeypatch):
    monkeypatch.setattr(housekeeping._connections, "use", lambda role: None)
    task = submit_task()
    Worker().acquire(1)
    assert 0 < housekeeping.turn() <= module.PERIOD_SECONDS
    execute("update ledgence_lease set expires_at = clock_timestamp() - interval '1 microsecond'")
    housekeeping.turn()
    assert execute("select outcome from ledgence_attempt where task_id = %s", [task]) == [("lost",)]


def test_the_next_turn_is_when_the_next_lease_expires(housekeeping, monkeypatch):
    monkeypatch.setattr(housekeeping._connections, "use", lambda role: None)
    submit_task()
    Worker().acquire(1)
    execute("update ledgence_lease set expires_at = clock_timestamp() + interval '2 seconds'")
    assert 1 < housekeeping.turn() <= 2.1


@pytest.mark.parametrize("error", [OperationalError("away"), RuntimeError("not foreseen")])
def test_a_failure_is_logged_and_tried_again(housekeeping, monkeypatch, caplog, error):
    again = threading.Event()
    turns = []

    def turn():
        turns.append(1)
        if len(turns) == 1:
            raise error
        again.set()
        return 60.0

    monkeypatch.setattr(module, "FAILURE_SECONDS", 0.01)
    monkeypatch.setattr(housekeeping, "turn", turn)
    housekeeping.start()
    assert again.wait(DEADLINE_SECONDS), f"no second turn after {error!r}"
    assert "trying again" in caplog.text


def test_an_outage_is_logged_ever_more_rarely(housekeeping, monkeypatch, caplog):
    turns = []

    def turn():
        turns.append(1)
        if len(turns) <= 20:
            raise OperationalError("away")
        housekeeping.stop()
        return 0.0

    monkeypatch.setattr(module, "FAILURE_SECONDS", 0.001)
    monkeypatch.setattr(housekeeping, "turn", turn)
    housekeeping.run()
    assert len(turns) == 21
    assert [record.args[0] for record in caplog.records if "trying again" in record.msg] == [1, 2, 4, 8, 16]
