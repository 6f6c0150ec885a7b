"""Submission under callers that stretch it: huge batches, odd moments, transactions of other kinds."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone as django_timezone

from ledgence import NewTask, get, submit, submit_many
from ledgence.models import DeliveryIntent, Task
from ledgence.operations import submit as submission
from ledgence_worker.errors import Conflict, InvalidInput
from tests.ledger.actors import PROGRAM, VERSION, execute, submit_task

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def manual() -> Iterator[None]:
    """A caller that begins and ends its transactions itself."""
    transaction.set_autocommit(False)
    yield
    transaction.rollback()
    transaction.set_autocommit(True)


def new_tasks(count: int, data: object, **options: Any) -> list[NewTask]:
    return [NewTask(program=PROGRAM, version=VERSION, data=data, **options)] * count


def statement_sizes(count: int, data: object) -> list[int]:
    sizes: list[int] = []

    def measure(execute, sql, params, many, context):
        if "insert into ledgence_task " in sql:
            sizes.append(len(params["data"]))
        return execute(sql, params, many, context)

    submit_task()
    with connection.execute_wrapper(measure):
        submit_many(new_tasks(count, data))
    return sizes


def test_many_large_tasks_go_in_many_statements():
    # Each is a string of quotes, which every layer of notation doubles: the worst that a megabyte can become.
    sizes = statement_sizes(24, '"' * 500_000)
    assert Task.objects.count() == 25
    assert len(sizes) == 6
    assert max(sizes) < 5 * submission.BATCH_CHARACTERS


def test_many_small_tasks_still_go_in_one_statement():
    assert len(statement_sizes(1000, "x" * 100)) == 1
    assert len(statement_sizes(1001, 1)) == 2


def test_large_tasks_are_all_or_none():
    submit_task(data="other", idempotency_key="taken")
    tasks = [*new_tasks(12, "x" * 1_000_000), *new_tasks(1, "x", idempotency_key="taken")]
    with pytest.raises(Conflict):
        submit_many(tasks)
    assert Task.objects.count() == 1


@pytest.mark.parametrize("hours", [-12, 0, 14])
def test_a_moment_that_could_not_be_read_back_is_refused(hours):
    with pytest.raises(InvalidInput, match="run_after"):
        submit_task(run_after=datetime.max.replace(tzinfo=timezone(timedelta(hours=hours))))
    assert not Task.objects.exists()


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12"])
def test_the_last_moment_can_be_shown_everywhere(zone):
    submit_task(run_after=datetime(9999, 12, 30, tzinfo=UTC))
    with django_timezone.override(zone):
        assert django_timezone.localtime(DeliveryIntent.objects.get().available_at).year == 9999


def test_the_first_moment_is_now():
    submit_task(run_after=datetime.min.replace(tzinfo=timezone(timedelta(hours=14))))
    assert DeliveryIntent.objects.get().available_at.year > 2000


def test_an_offset_that_no_database_knows_is_a_moment_too():
    odd = timezone(timedelta(hours=1, microseconds=5))
    submit_task(run_after=datetime(2100, 1, 1, 1, tzinfo=odd))
    assert DeliveryIntent.objects.get().available_at == datetime(2100, 1, 1, 1, tzinfo=odd)


@pytest.mark.parametrize("run_after", [datetime(2100, 1, 1).date(), "2100-01-01", 4102444800])
def test_what_is_no_datetime_is_refused(run_after):
    with pytest.raises(InvalidInput, match="run_after"):
        submit_task(run_after=run_after)


@pytest.mark.parametrize("task_id", [None, 5, 3.5, b"x", [], {}, "", "x", "0" * 5000, "\0", "\ud800"])
def test_what_is_no_id_is_refused(task_id):
    with pytest.raises(InvalidInput, match="is not a UUID"):
        get(task_id)


def test_without_autocommit_the_callers_lock_time_out_comes_back(manual):
    execute("set local lock_timeout = '7s'")
    submit(PROGRAM, version=VERSION, idempotency_key="a")
    assert execute("show lock_timeout") == [("7s",)]


def test_without_autocommit_a_submission_stands_with_the_callers_commit(manual):
    lost = submit(PROGRAM, version=VERSION, idempotency_key="a")
    transaction.rollback()
    kept = submit(PROGRAM, version=VERSION, idempotency_key="a")
    transaction.commit()
    assert kept.id != lost.id
    assert list(Task.objects.values_list("pk", flat=True)) == [kept.id]


def test_without_autocommit_a_wait_is_refused(manual):
    handle = submit(PROGRAM, version=VERSION)
    with pytest.raises(InvalidInput, match="leave the transaction"):
        handle.wait(60)


def test_without_autocommit_a_cancellation_bounds_its_waits_only(manual):
    handle = submit(PROGRAM, version=VERSION)
    execute("set local lock_timeout = '7s'")
    assert handle.cancel() == "cancelled"
    assert execute("show lock_timeout") == [("7s",)]


GARBAGE: dict[str, list[Any]] = {
    "traceparent": [5, b"x", "", "\0", "a b", "x" * 56, "é"],
    "retry_on": [5, None, "crashed", [[]], [5], {"a": 1}],
    "backoff": ["x", None, 5, {"initial_seconds": 1}],
    "timeout": [True, "5", 0, -1, float("nan"), float("inf"), 10**400],
    "max_attempts": [None, 0, 1.5, 32_768, True, "3"],
    "queue": [[], {}, 7, ""],
    "version": [[], 5, ""],
    "program": [None, 5, [], ""],
    "tenant": [5, ""],
    "idempotency_key": [5, [], "", "\n", "x" * 256],
    "correlation_key": [5, {}, "", "\t"],
}


@pytest.mark.parametrize("option", GARBAGE)
def test_garbage_is_refused_in_one_way(option):
    for value in GARBAGE[option]:
        with pytest.raises(InvalidInput):
            submit(**({"program": PROGRAM, "version": VERSION} | {option: value}))
    assert not Task.objects.exists()
