"""Housekeeping: it ends what has expired, soon, and outlives its own failures."""

import threading
import time

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connections

from ledgence import housekeeping as module
from ledgence.housekeeping import Housekeeping
from tests.ledger.actors import USING, Worker, execute, expire_leases, submit_task
from tests.ledger.rivals import Rival

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


def test_once_ends_what_has_expired_and_says_in_a_line_what_is_in_its_way(settings, capsys):
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 0.05}
    submit_task()
    Worker().acquire(1)
    expire_leases()
    with Rival() as rival, rival.transaction():
        rival.execute("select 1 from ledgence_attempt for update")
        with pytest.raises(CommandError, match="expire: another transaction holds a row") as caught:
            call_command("ledgence_recover", once=True)
    assert caught.value.returncode == 1
    call_command("ledgence_recover", once=True)
    assert capsys.readouterr().out == "expired=1\n"


def test_it_is_ready_once_it_has_succeeded_and_until_it_has_not_for_long(housekeeping, monkeypatch):
    assert housekeeping.ready_problems() == ["housekeeping has not succeeded yet"]
    monkeypatch.setattr(housekeeping, "turn", lambda: housekeeping.stop() or 0.0)
    housekeeping.run()
    assert housekeeping.live_problems() == housekeeping.ready_problems() == []
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + module.SILENCE_SECONDS_MAX + 1)
    assert housekeeping.ready_problems() == ["housekeeping has not succeeded for 91 s"]
    assert housekeeping.live_problems() == []
    monkeypatch.setattr(time, "monotonic", lambda: now + module.TURN_SECONDS_MAX + 1)
    assert housekeeping.live_problems() == ["housekeeping has not turned for 121 s"]


def test_failures_keep_it_alive_and_not_ready(housekeeping, monkeypatch):
    def turn():
        housekeeping.stop()
        raise OperationalError("away")

    monkeypatch.setattr(module, "FAILURE_SECONDS", 0.0)
    monkeypatch.setattr(housekeeping, "turn", turn)
    housekeeping.run()
    assert housekeeping.live_problems() == []
    assert housekeeping.ready_problems() == ["housekeeping has not succeeded yet"]


# The record of turns


def silence() -> float:
    seconds = module.seconds_since_turn(using=USING)
    assert seconds is not None
    return seconds


def turned_at():
    return execute("select turned_at from ledgence_housekeepingturn")


def test_a_turn_is_recorded_at_once_and_then_rarely(housekeeping, monkeypatch):
    monkeypatch.setattr(housekeeping._connections, "use", lambda role: None)
    assert module.seconds_since_turn(using=USING) is None
    housekeeping.turn()
    assert 0 <= silence() < 10
    execute("update ledgence_housekeepingturn set turned_at = now() - interval '1 h'")
    housekeeping.turn()
    assert silence() > 3599
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + module.RECORD_SECONDS)
    housekeeping.turn()
    assert silence() < 10


def test_of_many_processes_one_records(db):
    module.record_turn(using=USING)
    first = turned_at()
    module.record_turn(using=USING)
    assert turned_at() == first
    execute("update ledgence_housekeepingturn set turned_at = turned_at - interval '6 s'")
    module.record_turn(using=USING)
    assert turned_at() > first


def test_a_clock_that_was_set_back_is_recorded_anew(db):
    module.record_turn(using=USING)
    execute("update ledgence_housekeepingturn set turned_at = now() + interval '1 h'")
    module.record_turn(using=USING)
    assert silence() >= 0


def test_a_record_that_somebody_holds_is_not_waited_for():
    module.record_turn(using=USING)
    execute("update ledgence_housekeepingturn set turned_at = turned_at - interval '1 h'")
    with Rival() as rival, rival.transaction():
        rival.execute("select * from ledgence_housekeepingturn for update")
        module.record_turn(using=USING)
    assert silence() > 3599


def test_ending_once_is_recorded_too():
    call_command("ledgence_recover", once=True)
    assert silence() < 10
