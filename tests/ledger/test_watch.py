"""What housekeeping can only tell: old snapshots, and work that nobody serves."""

from io import StringIO

import pytest
from django.core.management import call_command

from ledgence import watch
from ledgence.watch import old_snapshots, unserved_work, warn_of_old_snapshots, warn_of_unserved_work
from tests.ledger.actors import PROGRAM, USING, VERSION, Worker, execute, submit_task
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
