"""What housekeeping can only tell: old snapshots, and work that nobody serves."""

from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import call_command

from ledgence import housekeeping, watch
from ledgence.operations.publishers import record_publisher
from ledgence.operations.queues import pause
from ledgence.watch import (
    Unpublished,
    old_snapshots,
    unpublished_queues,
    unserved_work,
    warn_of_old_snapshots,
    warn_of_unpublished_queues,
    warn_of_unserved_work,
)
from tests.ledger.actors import PROGRAM, USING, VERSION, Worker, execute, operator, submit_task
from tests.ledger.publishers import route
from tests.ledger.rivals import Rival

pytestmark = pytest.mark.django_db(transaction=True)

MINE = ("default", "default", "default", PROGRAM, VERSION, 1)


def unserved() -> list[tuple]:
    """Return what unserved_work() tells, but for the ids of queue and program."""
    return [one[:6] for one in unserved_work(USING)]


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(watch, "UNSERVED_SECONDS", 0.0)


def test_a_snapshot_that_is_old_is_named(monkeypatch, caplog):
    monkeypatch.setattr(watch, "SNAPSHOT_SECONDS", 0.0)
    with Rival() as rival, rival.transaction():
        # An open cursor holds its snapshot.
        rival.execute("declare held cursor for select * from ledgence_task")
        assert rival.pid in [pid for pid, _ in old_snapshots(USING)]
        warn_of_old_snapshots(USING)
    assert f"pid={rival.pid}" in caplog.text
    assert rival.pid not in [pid for pid, _ in old_snapshots(USING)]


def test_due_work_without_a_worker_is_named_and_with_one_is_not(at_once, caplog):
    submit_task()
    assert unserved() == [MINE]
    warn_of_unserved_work(USING)
    assert f"queue=default program={PROGRAM} version={VERSION} count=1" in caplog.text
    Worker()
    assert unserved() == []


def test_the_audit_tells_it_once(at_once, caplog):
    submit_task()
    told = StringIO()
    call_command("ledgence_audit", stdout=StringIO(), stderr=told)
    assert told.getvalue().count("which no live worker serves") == 1
    # Without LOGGING a warning in the log is printed as well.
    assert not caplog.records


@pytest.mark.parametrize(
    "worker",
    [{"queues": ("other",)}, {"exclude_queues": ("default",)}, {"tenant": "other"}, {"catalogue": ()}],
    ids=lambda options: next(iter(options)),
)
def test_a_worker_that_does_not_serve_it_counts_for_nothing(at_once, worker):
    submit_task()
    Worker(**worker)
    assert unserved() == [MINE]


def test_a_session_that_is_over_counts_for_nothing(at_once):
    submit_task()
    Worker()
    execute("update ledgence_workersession set closed_at = clock_timestamp()")
    assert unserved() == [MINE]


def test_a_silent_worker_counts_for_nothing(at_once):
    submit_task()
    Worker()
    execute("update ledgence_workersession set extended_at = clock_timestamp() - interval '31 s'")
    assert unserved() == [MINE]
    [(queue,)], [(program,)] = execute("select id from ledgence_queue"), execute("select id from ledgence_program")
    assert [(one.queue_id, one.program_id) for one in unserved_work(USING)] == [(queue, program)]


def test_work_that_is_not_due_for_long_is_no_concern():
    submit_task()
    assert unserved() == []


def test_a_paused_queue_is_no_concern(at_once):
    submit_task()
    execute("update ledgence_queue set paused_at = clock_timestamp()")
    assert unserved() == []


BROKER = Unpublished("default", "default", "broker", "there")


def test_an_external_queue_without_a_live_publisher_is_named_and_with_one_is_not(caplog):
    submit_task()
    queue = route("broker")
    assert unpublished_queues(USING) == [BROKER]
    warn_of_unpublished_queues(USING)
    assert "tenant=default namespace=default queue=broker destination=there" in caplog.text
    record_publisher(uuid4(), queue, answered_seconds_ago=None, failure="", using=USING)
    assert unpublished_queues(USING) == []
    execute("update ledgence_publisher set turned_at = now() - interval '61 s'")
    assert unpublished_queues(USING) == [BROKER]


def test_work_waits_when_its_publication_is_late_and_its_queue_is_not_paused():
    queue = route("broker")
    submit_task(queue="broker")
    assert unpublished_queues(USING, waiting=True) == []
    execute("update ledgence_deliveryintent set next_publish_at = now() - interval '31 s'")
    assert unpublished_queues(USING, waiting=True) == [BROKER]
    pause([queue.id], operator(), using=USING)
    assert unpublished_queues(USING, waiting=True) == []


def test_the_audit_names_an_external_queue_without_a_publisher():
    route("broker")
    told = StringIO()
    call_command("ledgence_audit", stdout=StringIO(), stderr=told)
    assert "external queue default/default/broker has no live publisher; start" in told.getvalue()


def test_housekeeping_logs_what_is_watched(monkeypatch, caplog):
    monkeypatch.setattr(housekeeping, "WATCH_SECONDS", 0.0)
    route("broker")
    keeper = housekeeping.Housekeeping(USING)
    monkeypatch.setattr(keeper._connections, "use", lambda role: None)
    keeper.turn()
    assert "external queue without a live publisher tenant=default namespace=default queue=broker" in caplog.text
