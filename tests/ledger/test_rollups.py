"""Roll-ups: what is claimed and ended is counted after its commit, and written down by the minute."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import DatabaseError, transaction

from ledgence import rollups as module
from ledgence import sql
from ledgence.models import Queue, Rollup
from ledgence.models.rollup import WAIT_BOUNDS
from ledgence.operations.expire import expire
from ledgence.rollups import Rollups, prune_rollups, rollups
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import USING, Worker, execute, expire_leases, submit_task, submit_tasks

pytestmark = pytest.mark.django_db(transaction=True)


class Minutes:
    """The process's clock, standing still in the middle of a minute."""

    def __init__(self) -> None:
        self.seconds = 6_000_030.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Minutes:
    minutes = Minutes()
    monkeypatch.setattr(module, "time", minutes)
    return minutes


@pytest.fixture(autouse=True)
def counts(clock: Minutes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rollups]:
    """The counts of a process that has counted nothing yet."""
    monkeypatch.setattr(module, "_rollups", {})
    yield rollups(USING)


def written() -> list[dict[str, int]]:
    """Return the counts of each row that are not nought, but for the waits."""
    names = ("claimed", "succeeded", "failed", "retried", "cancelled")
    return [{name: count for name in names if (count := getattr(row, name))} for row in Rollup.objects.order_by("pk")]


def test_claims_and_ends_are_counted_by_their_consequence(counts: Rollups) -> None:
    submit_tasks(5, max_attempts=2)
    worker = Worker()
    done, failed, crashed, given_back, lost = worker.acquire(5)
    worker.settle(done)
    worker.settle(failed, Outcome.FAILED)
    worker.settle(crashed, Outcome.CRASHED)
    worker.release(given_back)
    expire_leases(lost.task_id)
    expire(using=USING)
    assert written() == []
    counts.write(unfinished=True)
    assert written() == [{"claimed": 5, "succeeded": 1, "failed": 1, "retried": 2}]
    counts.write(unfinished=True)
    assert len(written()) == 1


def test_waits_are_counted_by_their_length(counts: Rollups) -> None:
    short, long = submit_tasks(2)
    execute("update ledgence_deliveryintent set available_at = now() - interval '2 s' where task_id = %s", [long])
    Worker().acquire(2)
    counts.write(unfinished=True)
    [row] = Rollup.objects.all()
    assert len(row.waits) == len(WAIT_BOUNDS) + 1
    assert sum(row.waits) == 2
    assert row.waits[WAIT_BOUNDS.index(3)] == 1
    counts.count_claims([(row.queue_id, bound) for bound in WAIT_BOUNDS])
    counts.count_claims([(row.queue_id, 1e9), (row.queue_id, -1.0)])
    counts.write(unfinished=True)
    assert Rollup.objects.latest("pk").waits == [2] + [1] * len(WAIT_BOUNDS)
    assert short != long


def test_what_is_rolled_back_is_not_counted(counts: Rollups) -> None:
    submit_task()
    worker = Worker()
    with transaction.atomic():
        worker.acquire(1)
        transaction.set_rollback(True)
    counts.write(unfinished=True)
    assert written() == []


def test_each_queue_and_each_minute_has_its_row(counts: Rollups, clock: Minutes) -> None:
    submit_task(queue="a")
    submit_tasks(2, queue="b")
    a, b = (Queue.objects.get(name=name).pk for name in "ab")
    counts.count_claims([(a, 0.0), (b, 0.0), (b, 0.0)])
    counts.write()
    assert written() == []
    clock.seconds += 60
    counts.count_ends([(a, "succeeded")])
    clock.seconds += 60
    counts.write()
    of_a, of_b, last = Rollup.objects.order_by("minute", "queue")
    assert [(row.queue_id, row.claimed, row.succeeded) for row in (of_a, of_b, last)] == [
        (a, 1, 0),
        (b, 2, 0),
        (a, 0, 1),
    ]
    assert last.minute - of_a.minute == timedelta(seconds=60)
    assert last.minute.second == last.minute.microsecond == 0


def test_without_housekeeping_they_are_written_by_whoever_counts(counts: Rollups, clock: Minutes) -> None:
    submit_task()
    queue = Queue.objects.get().pk
    for _ in range(module.LEFT_MINUTES):
        counts.count_ends([(queue, "failed")])
        clock.seconds += 60
    assert written() == []
    counts.count_ends([(queue, "failed")])
    assert written() == [{"failed": 1}] * module.LEFT_MINUTES


def test_a_queue_that_is_gone_is_left_out(counts: Rollups) -> None:
    submit_task()
    counts.count_ends([(Queue.objects.get().pk, "cancelled"), (10**6, "cancelled")])
    counts.write(unfinished=True)
    assert written() == [{"cancelled": 1}]


def test_a_failure_to_write_reaches_nobody(counts: Rollups, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    def fail(*_: object) -> None:
        raise DatabaseError("no such table")

    counts.count_ends([(1, "failed")])
    monkeypatch.setattr(sql, "run", fail)
    counts.write(unfinished=True)
    assert "counts lost rows=1 error=no such table" in caplog.text


def test_old_counts_are_pruned(counts: Rollups, monkeypatch: pytest.MonkeyPatch) -> None:
    submit_task()
    for _ in range(3):
        counts.count_ends([(Queue.objects.get().pk, "failed")])
        counts.write(unfinished=True)
    old = Rollup.objects.order_by("pk")[:2]
    execute("update ledgence_rollup set minute = now() - interval '26 h' where id = any(%s)", [[row.pk for row in old]])
    monkeypatch.setattr(module, "PRUNED_MAX", 1)
    for left in (2, 1, 1):
        prune_rollups(using=USING)
        assert Rollup.objects.count() == left
