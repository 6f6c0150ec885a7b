"""The audit: every invariant finds a violation that was made by hand, and names it."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from ledgence.audit import INVARIANTS, audit
from ledgence.models import Queue
from ledgence.operations.cancel import cancel
from ledgence.operations.operate import requeue
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import (
    USING,
    Worker,
    assert_audit_clean,
    execute,
    make_due,
    operator,
    submit_task,
    submit_tasks,
)

#: What breaks each invariant, done to every task of the scene in which it makes sense.
VIOLATIONS = [
    ("one_state", "queued", "delete from ledgence_deliveryintent"),
    ("one_state", "active", "delete from ledgence_lease"),
    ("one_state", "active", "update ledgence_task set outcome = 'failed', finished_at = now(), revision = 1"),
    ("one_state", "failed", "update ledgence_task set outcome = null, finished_at = null, revision = 2"),
    ("attempts_without_gaps", "retried", "delete from ledgence_attempt where number = 1"),
    ("attempts_without_gaps", "retried", "update ledgence_attempt set number = 3 where number = 2"),
    (
        "attempts_without_gaps",
        "retried",
        "update ledgence_attempt set outcome = null, finished_at = null, consequence = null where number = 1",
    ),
    ("attempts_without_gaps", "failed", "update ledgence_attempt set consequence = null"),
    ("cause_is_explained", "active", "update ledgence_attempt set cause = 'lost'"),
    ("cause_is_explained", "retried", "update ledgence_attempt set cause = 'submitted' where number = 2"),
    ("cause_is_explained", "retried", "update ledgence_attempt set cause = 'requeued' where number = 2"),
    ("lease_is_last_attempt", "active", "update ledgence_lease set token = gen_random_uuid()"),
    ("lease_is_last_attempt", "active", "update ledgence_lease set number = 2"),
    ("lease_is_last_attempt", "active", "update ledgence_lease set session_id = gen_random_uuid()"),
    (
        "lease_is_last_attempt",
        "active",
        "update ledgence_attempt set outcome = 'lost', finished_at = now(), consequence = 'retry'",
    ),
    ("running_attempt_has_lease", "active", "delete from ledgence_lease"),
    ("one_success", "succeeded", "update ledgence_attempt set outcome = 'failed', consequence = 'failed'"),
    ("one_success", "succeeded", "update ledgence_attempt set outcome = 'failed'"),
    ("one_success", "succeeded", "update ledgence_task set outcome = 'failed', result = null"),
    ("one_success", "failed", "update ledgence_task set outcome = 'succeeded'"),
    (
        "one_success",
        "retried",
        "update ledgence_attempt set outcome = 'succeeded', consequence = 'succeeded' where number = 1",
    ),
    ("outcome_is_explained", "failed", "update ledgence_task set outcome = 'cancelled'"),
    ("outcome_is_explained", "failed", "update ledgence_attempt set consequence = 'cancelled'"),
    ("outcome_is_explained", "failed", "delete from ledgence_attempt"),
    ("charges_are_counted", "waiting", "update ledgence_deliveryintent set charged = 0"),
    ("charges_are_counted", "requeued", "update ledgence_deliveryintent set charged = 1"),
    ("charges_are_counted", "retried", "update ledgence_lease set charged = 0"),
    ("charges_are_counted", "active", "update ledgence_lease set charged = 1"),
    ("intent_is_next_generation", "queued", "update ledgence_deliveryintent set generation = 2"),
    ("intent_is_next_generation", "waiting", "update ledgence_deliveryintent set generation = 1"),
    ("settled_by_live_owner", "failed", "update ledgence_attempt set lease_expires_at = finished_at"),
    ("revision_is_explained", "failed", "update ledgence_task set revision = 3"),
    ("revision_is_explained", "queued", "update ledgence_task set revision = 1"),
    ("revision_is_explained", "requeued", "delete from ledgence_operatoractiontarget"),
    (
        "external_intent_is_delivered",
        "external",
        "update ledgence_deliveryintent set publication_id = null, next_publish_at = null",
    ),
    (
        "external_intent_is_delivered",
        "external",
        "update ledgence_deliveryintent set next_publish_at = now() + interval '3 hours'",
    ),
    ("no_orphans", "queued", "delete from ledgence_task"),
    ("no_orphans", "active", "delete from ledgence_task"),
    ("no_orphans", "failed", "delete from ledgence_task"),
    ("no_orphans", "queued", "update ledgence_deliveryintent set queue_id = queue_id + 1"),
    ("no_orphans", "active", "update ledgence_lease set program_id = program_id + 1"),
    (
        "no_key_twice",
        "queued",
        "drop index ledgence_task_key; update ledgence_task set idempotency_key = 'k', digest = '\\x00'",
    ),
    ("cancel_is_not_forgotten", "queued", "update ledgence_task set cancel_requested_at = now()"),
]


def make_scene(name: str, worker: Worker) -> None:
    """Bring two tasks into a state, with a clean audit."""
    if name == "external":
        Queue.objects.create(tenant="default", namespace="default", name="q", mode="external", destination="there")
        submit_tasks(2, queue="q")
        return
    tasks = submit_tasks(2)
    if name == "queued":
        return
    for assignment in worker.acquire(2):
        if name in ("retried", "waiting"):
            worker.settle(assignment, Outcome.CRASHED)
        elif name in ("failed", "requeued"):
            worker.settle(assignment, Outcome.FAILED)
        elif name == "succeeded":
            worker.settle(assignment)
    if name == "retried":
        make_due()
        worker.acquire(2)
    if name == "requeued":
        requeue(dict.fromkeys(tasks, 1), operator(), using=USING)


@pytest.mark.parametrize(("invariant", "scene", "violation"), VIOLATIONS)
def test_a_violation_is_found_and_named(worker: Worker, invariant, scene, violation):
    make_scene(scene, worker)
    assert_audit_clean()
    ids = {str(task) for (task,) in execute("select id from ledgence_task")}
    # Its constraint would be checked at the end of the transaction, which never comes.
    execute(violation)
    found = {v.invariant: v.ids for v in audit(using=USING)}
    assert invariant in found
    assert {text.partition(".")[0] for text in found[invariant]} <= ids


def test_every_invariant_has_a_violation_here():
    assert {invariant for invariant, _, _ in VIOLATIONS} == set(INVARIANTS)


def test_the_ledger_is_clean_through_a_whole_life(worker: Worker):
    task, other = submit_tasks(2)
    for outcome in (Outcome.CRASHED, Outcome.INTERRUPTED, Outcome.FAILED):
        make_due()
        for assignment in worker.acquire(2):
            worker.settle(assignment, outcome)
        assert_audit_clean()
    requeue({task: 1, other: 1}, operator(), using=USING)
    cancel([other], using=USING)
    assert_audit_clean()
    worker.settle(worker.acquire_one())
    assert_audit_clean()


def test_the_command_tells_that_all_is_well(db):
    submit_task()
    out = StringIO()
    call_command("ledgence_audit", stdout=out)
    assert out.getvalue() == f"audit ok: {len(INVARIANTS)} invariants hold\n"


def test_the_command_names_what_is_broken_and_fails(db):
    tasks = submit_tasks(25)
    execute("update ledgence_deliveryintent set generation = 2")
    errors = StringIO()
    with pytest.raises(CommandError, match=f"1 of {len(INVARIANTS)} invariants do not hold"):
        call_command("ledgence_audit", stderr=errors)
    assert errors.getvalue().startswith("intent_is_next_generation: ")
    assert sum(str(task) in errors.getvalue() for task in tasks) == 20
    assert "and 5 more" in errors.getvalue()
