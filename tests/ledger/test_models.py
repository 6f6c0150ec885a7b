"""The tables: a task's state is which of its rows exists, and the database refuses rows that make no sense."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError

from ledgence.models import DeliveryIntent, Lease, State, Task
from ledgence.operations.cancel import cancel
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import USING, Worker, execute, state_of, submit_task


def finish(outcome: Outcome) -> Callable[[Worker], None]:
    def run(worker: Worker) -> None:
        worker.settle(worker.acquire_one(), outcome)

    return run


def claim(worker: Worker) -> None:
    worker.acquire_one()


def cancel_all(worker: Worker) -> None:
    cancel(list(Task.objects.values_list("pk", flat=True)), using=USING)


WAYS: dict[State, list[Callable[[Worker], None]]] = {
    State.QUEUED: [lambda worker: None, finish(Outcome.CRASHED), finish(Outcome.INTERRUPTED)],
    State.ACTIVE: [claim],
    State.SUCCEEDED: [finish(Outcome.SUCCEEDED)],
    State.FAILED: [finish(Outcome.FAILED)],
    State.CANCELLED: [cancel_all],
}


@pytest.mark.parametrize(("state", "way"), [(state, way) for state, ways in WAYS.items() for way in ways])
def test_the_query_the_view_and_the_rows_agree_on_the_state(worker: Worker, state, way):
    task = submit_task()
    way(worker)
    assert state_of(task) == state
    assert execute("select id, state from ledgence_task_state") == [(task, state)]
    rows = (
        DeliveryIntent.objects.exists(),
        Lease.objects.exists(),
        Task.objects.filter(outcome__isnull=False).exists(),
    )
    assert rows == (state is State.QUEUED, state is State.ACTIVE, state not in (State.QUEUED, State.ACTIVE))


def test_every_state_is_walked():
    assert set(WAYS) == set(State)


def test_states_can_be_counted_and_filtered(worker: Worker):
    for _ in range(3):
        submit_task()
    worker.settle(worker.acquire_one())
    worker.acquire_one()
    tasks: Any = Task.objects.with_state()
    assert sorted(tasks.values_list("state", flat=True)) == ["active", "queued", "succeeded"]
    assert tasks.filter(state="queued").count() == 1


def test_the_view_tells_the_hour_and_the_attempt(worker: Worker):
    submit_task()
    worker.acquire_one()
    assert execute("select queue, program, version, attempt, session_id from ledgence_task_state") == [
        ("default", "tests.work", "1", 1, worker.session_id)
    ]


ILLEGAL = [
    ("ledgence_task_outcome", "update ledgence_task set outcome = 'failed'"),
    ("ledgence_task_outcome", "update ledgence_task set finished_at = now()"),
    ("ledgence_task_outcome", "update ledgence_task set outcome = 'lost', finished_at = now()"),
    ("ledgence_task_result", "update ledgence_task set result = '1'"),
    ("ledgence_task_result", "update ledgence_task set result = '1', outcome = 'failed', finished_at = now()"),
    ("ledgence_task_priority", "update ledgence_task set priority = 101"),
    ("ledgence_task_priority", "update ledgence_task set priority = -101"),
    ("ledgence_task_digest", "update ledgence_task set idempotency_key = 'k'"),
    ("revision_check", "update ledgence_task set revision = -1"),
    ("ledgence_intent_generation", "update ledgence_deliveryintent set generation = 0"),
    ("charged_check", "update ledgence_deliveryintent set charged = -1"),
    ("ledgence_attempt_outcome", "update ledgence_attempt set outcome = 'lost'"),
    ("ledgence_attempt_outcome", "update ledgence_attempt set finished_at = now()"),
    ("ledgence_attempt_owner", "update ledgence_attempt set token = null"),
    ("ledgence_attempt_owner", "update ledgence_attempt set session_id = null"),
    (
        "ledgence_attempt_owner",
        "update ledgence_attempt set outcome = 'lost', finished_at = now(), token = null, session_id = null, "
        "claimed_at = null",
    ),
    (
        "ledgence_attempt_owner",
        "update ledgence_attempt set token = null, session_id = null, claimed_at = null",
    ),
    ("ledgence_attempt_evidence", "update ledgence_attempt set settlement = 'a', late_settlement = 'a'"),
    (
        "ledgence_attempt_number",
        "insert into ledgence_attempt (task_id, number, cause, session_id, token, claimed_at, delivery_mode, "
        "available_at) select task_id, number, cause, session_id, token, claimed_at, delivery_mode, available_at "
        "from ledgence_attempt",
    ),
    ("ledgence_lease_pkey", "insert into ledgence_lease select * from ledgence_lease"),
    ("ledgence_deliveryintent_pkey", "insert into ledgence_deliveryintent select * from ledgence_deliveryintent"),
    ("ledgence_queue_mode", "update ledgence_queue set mode = 'other', destination = 'there'"),
    ("ledgence_queue_route", "update ledgence_queue set mode = 'external'"),
    ("ledgence_queue_route", "update ledgence_queue set destination = 'there'"),
    (
        "ledgence_queue_name",
        "insert into ledgence_queue (tenant, namespace, name, mode, paused_by, pause_reason) "
        "select tenant, namespace, name, mode, '', '' from ledgence_queue",
    ),
    ("ledgence_policy_attempts", "update ledgence_policy set max_attempts = 0"),
    ("ledgence_policy_timeout", "update ledgence_policy set timeout_seconds = 0"),
    ("ledgence_policy_backoff", "update ledgence_policy set backoff_factor = 10.1"),
    ("ledgence_policy_backoff", "update ledgence_policy set backoff_factor = 'NaN'"),
    ("ledgence_policy_backoff", "update ledgence_policy set backoff_jitter = 1.1"),
    ("ledgence_policy_backoff", "update ledgence_policy set backoff_maximum_seconds = 31536001"),
    ("ledgence_policy_backoff", "update ledgence_policy set backoff_initial_seconds = -1"),
    (
        "ledgence_program_version",
        "insert into ledgence_program (tenant, namespace, name, version) "
        "select tenant, namespace, name, version from ledgence_program",
    ),
]


@pytest.mark.parametrize(("constraint", "statement"), ILLEGAL)
def test_the_database_refuses_a_row_that_makes_no_sense(worker: Worker, constraint, statement):
    submit_task()
    worker.acquire_one()
    submit_task()
    with pytest.raises(IntegrityError, match=constraint):
        execute(statement)


def test_a_destination_serves_one_queue(db):
    for name in ("a", "b"):
        submit_task(queue=name)
    execute("delete from ledgence_deliveryintent")
    with pytest.raises(IntegrityError, match="ledgence_queue_destination"):
        execute("update ledgence_queue set mode = 'external', destination = 'there'")


@pytest.mark.parametrize("table", ["queue", "program", "policy"])
def test_what_a_task_names_cannot_go(db, table):
    submit_task()
    with pytest.raises(IntegrityError, match="foreign key"):
        # Deferred constraints are checked now.
        execute(f"delete from ledgence_{table}; set constraints all immediate")  # noqa: S608


def test_a_session_with_attempts_cannot_go(worker: Worker):
    submit_task()
    worker.acquire_one()
    with pytest.raises(IntegrityError, match="foreign key"):
        execute("delete from ledgence_workersession; set constraints all immediate")
