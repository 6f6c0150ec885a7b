"""Settlement: accepted once, from the exact live owner, with the consequence in the same commit."""

from dataclasses import replace
from uuid import uuid4

import pytest
from django.db import transaction

from ledgence.models import Attempt, DeliveryIntent, Lease, Task
from ledgence.operations.expire import expire
from ledgence.operations.operate import requeue
from ledgence.operations.settle import settle
from ledgence_worker import limits
from ledgence_worker.errors import Busy, InvalidInput
from ledgence_worker.protocol import ErrorReport, Outcome, Owner, Settled, SettleStatus
from tests.ledger.actors import (
    USING,
    Worker,
    assert_audit_clean,
    attempts_of,
    execute,
    expire_leases,
    make_due,
    operator,
    outcomes_of,
    raised,
    settlement_of,
    state_of,
    submit_task,
    submit_tasks,
)
from tests.ledger.frozen import MICROSECOND, FrozenClock
from tests.ledger.rivals import Rival, hold_lease_until_it_expires

ACCEPTED, CONFLICT = SettleStatus.ACCEPTED, SettleStatus.CONFLICT
OWNERSHIP_LOST, NOT_FOUND = SettleStatus.OWNERSHIP_LOST, SettleStatus.NOT_FOUND


def row_of(task):
    """Return what a settlement may change, to show that it did not."""
    return (
        Task.objects.values_list("outcome", "revision", "finished_at").get(pk=task),
        list(Lease.objects.filter(pk=task).values()),
        list(DeliveryIntent.objects.filter(pk=task).values()),
        list(Attempt.objects.filter(task_id=task).values_list("number", "outcome", "finished_at").order_by("number")),
    )


def test_a_success_ends_attempt_lease_and_task_at_once(worker: Worker):
    task = submit_task()
    answer = worker.settle(worker.acquire_one(), result='{"a": 1.0}', output="said", seconds=0.25)
    assert answer == Settled(task_id=task, number=1, status=ACCEPTED, consequence="succeeded")
    assert state_of(task) == "succeeded"
    [attempt] = attempts_of(task)
    assert attempt.outcome == "succeeded" and attempt.finished_at is not None
    assert attempt.report["output"] == "said" and attempt.report["seconds"] == 0.25
    assert execute("select result::text from ledgence_task where id = %s", [task]) == [('{"a": 1.0}',)]
    assert not Lease.objects.exists()
    assert_audit_clean()


@pytest.mark.parametrize(
    ("outcome", "consequence"),
    [
        (Outcome.FAILED, "failed"),
        (Outcome.TIMED_OUT, "retry"),
        (Outcome.CRASHED, "retry"),
        (Outcome.INTERRUPTED, "retry"),
        (Outcome.CANCELLED, "failed"),
    ],
)
def test_the_default_policy_retries_what_is_not_the_programs_word(worker: Worker, outcome, consequence):
    task = submit_task()
    assert worker.settle(worker.acquire_one(), outcome).consequence == consequence
    assert state_of(task) == ("queued" if consequence == "retry" else "failed")
    assert outcomes_of(task) == [outcome]
    assert_audit_clean()


def test_an_identical_settlement_gets_the_same_answer_while_the_first_consequence_stands(worker: Worker):
    submit_task()
    assignment = worker.acquire_one()
    first = worker.settle(assignment, Outcome.CRASHED, exit_status=-9)
    before = row_of(assignment.task_id)
    assert worker.settle(assignment, Outcome.CRASHED, exit_status=-9) == first
    assert row_of(assignment.task_id) == before


def test_an_identical_settlement_gets_the_same_answer_after_later_attempts(worker: Worker):
    task = submit_task()
    first = worker.acquire_one()
    answer = worker.settle(first, Outcome.CRASHED)
    make_due()
    second = worker.acquire_one()
    assert worker.settle(first, Outcome.CRASHED) == answer
    worker.settle(second)
    assert worker.settle(first, Outcome.CRASHED) == answer
    assert state_of(task) == "succeeded"
    assert_audit_clean()


@pytest.mark.parametrize("claimed", [False, True])
def test_an_identical_settlement_gets_the_same_answer_after_a_requeue(worker: Worker, claimed):
    task = submit_task()
    assignment = worker.acquire_one()
    answer = worker.settle(assignment, Outcome.FAILED)
    assert answer.consequence == "failed"
    requeue({task: 1}, operator(), using=USING)
    if claimed:
        worker.acquire_one()
    assert worker.settle(assignment, Outcome.FAILED) == answer
    assert_audit_clean()


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": Outcome.CRASHED, "result": None},
        {"result": '{"a":2}'},
        {"result": '{"a": 1}'},
        {"output": "other"},
        {"seconds": 0.5},
    ],
)
def test_a_different_settlement_is_a_conflict_and_changes_nothing(worker: Worker, change):
    submit_task()
    assignment = worker.acquire_one()
    worker.settle(assignment, result='{"a":1}')
    before = row_of(assignment.task_id)
    given = {"outcome": Outcome.SUCCEEDED, "result": '{"a":1}'} | change
    answer = worker.settle(assignment, given.pop("outcome"), **given)
    assert (answer.status, answer.consequence) == (CONFLICT, "")
    assert row_of(assignment.task_id) == before
    [attempt] = attempts_of(assignment.task_id)
    assert attempt.late_settlement is None
    assert_audit_clean()


def test_a_late_settlement_is_kept_once_as_evidence_and_changes_nothing(worker: Worker):
    task = submit_task()
    assignment = worker.acquire_one()
    expire_leases(task)
    before = row_of(task)
    assert worker.settle(assignment, result='"done"', output="tail").status == OWNERSHIP_LOST
    assert row_of(task) == before
    [attempt] = attempts_of(task)
    kept = (attempt.late_outcome, attempt.late_result, attempt.late_at)
    assert kept[:2] == ("succeeded", "done") and attempt.late_report["output"] == "tail"
    # The same one, and another one, later: the first stays.
    assert worker.settle(assignment, result='"done"', output="tail").status == OWNERSHIP_LOST
    assert worker.settle(assignment, Outcome.FAILED).status == OWNERSHIP_LOST
    [attempt] = attempts_of(task)
    assert (attempt.late_outcome, attempt.late_result, attempt.late_at) == kept
    assert_audit_clean()


def test_a_late_settlement_after_recovery_leaves_the_new_owner_alone(worker: Worker):
    task = submit_task()
    first = worker.acquire_one()
    expire_leases(task)
    expire(using=USING)
    make_due()
    second = worker.acquire_one()
    before = row_of(task)
    assert worker.settle(first).status == OWNERSHIP_LOST
    assert row_of(task) == before
    assert worker.settle(second).status == ACCEPTED
    # And after the end as well.
    assert worker.settle(first).status == OWNERSHIP_LOST
    assert outcomes_of(task) == ["lost", "succeeded"]
    assert [attempt.late_outcome for attempt in attempts_of(task)] == ["succeeded", None]
    assert_audit_clean()


def test_wrong_owners_are_not_found_and_change_nothing(worker: Worker):
    task = submit_task()
    assignment = worker.acquire_one()
    before = row_of(task)
    owner = assignment.owner
    assert worker.settle(replace(owner, token=uuid4())).status == NOT_FOUND
    assert worker.settle(replace(owner, number=2)).status == NOT_FOUND
    assert worker.settle(Owner(task_id=uuid4(), number=1, token=owner.token)).status == NOT_FOUND
    assert Worker().settle(owner).status == NOT_FOUND
    assert row_of(task) == before
    assert all(attempt.late_settlement is None for attempt in attempts_of(task))


def test_tokens_of_each_other_give_no_authority(worker: Worker):
    tasks = submit_tasks(2)
    one, other = worker.acquire(2)
    swapped = [
        settlement_of(replace(one.owner, token=other.owner.token), Outcome.FAILED, error=raised("ValueError")),
        settlement_of(replace(other.owner, token=one.owner.token)),
    ]
    assert {answer.status for answer in settle(worker.session_id, swapped, using=USING)} == {NOT_FOUND}
    assert [outcomes_of(task) for task in tasks] == [[None], [None]]
    assert worker.settle(one).status == worker.settle(other).status == ACCEPTED


def test_an_earlier_owner_has_no_authority_over_a_later_attempt_under_its_number(worker: Worker):
    task = submit_task()
    first = worker.acquire_one()
    expire_leases(task)
    expire(using=USING)
    make_due()
    second = worker.acquire_one()
    assert worker.settle(replace(first.owner, number=2)).status == NOT_FOUND
    assert worker.settle(replace(second.owner, number=1)).status == NOT_FOUND
    assert state_of(task) == "active"


@pytest.mark.parametrize(("offset", "status"), [(-1, ACCEPTED), (0, OWNERSHIP_LOST), (1, OWNERSHIP_LOST)])
def test_expiry_is_exact_to_the_microsecond(clock: FrozenClock, worker: Worker, offset, status):
    submit_task()
    assignment = worker.acquire_one()
    clock.set(Lease.objects.get().expires_at + offset * MICROSECOND)
    assert worker.settle(assignment).status == status
    assert_audit_clean()


def test_two_attempts_of_one_task_in_one_batch_are_judged_apart(worker: Worker):
    """A worker that lost an attempt may have acquired the next one of the same task itself."""
    task = submit_task()
    first = worker.acquire_one()
    expire_leases(task)
    expire(using=USING)
    make_due()
    second = worker.acquire_one()
    for order in (1, -1):
        batch = [settlement_of(first, Outcome.CRASHED), settlement_of(second, result='"second"')][::order]
        answers = settle(worker.session_id, batch, using=USING)
        assert {(a.number, a.status) for a in answers} == {(1, OWNERSHIP_LOST), (2, ACCEPTED)}
        assert [a.number for a in answers] == [s.number for s in batch]
    assert outcomes_of(task) == ["lost", "succeeded"]
    assert Task.objects.get(pk=task).result == "second"
    assert_audit_clean()


def test_a_batch_is_answered_in_order_item_by_item(worker: Worker):
    submit_tasks(5)
    done, late, conflicting, foreign, crashed = worker.acquire(5)
    worker.settle(conflicting)
    expire_leases(late.task_id)
    batch = [
        settlement_of(done),
        settlement_of(late),
        settlement_of(conflicting, Outcome.FAILED),
        settlement_of(replace(foreign.owner, token=uuid4())),
        settlement_of(crashed, Outcome.CRASHED),
    ]
    answers = settle(worker.session_id, batch, using=USING)
    assert [(a.task_id, a.status, a.consequence) for a in answers] == [
        (done.task_id, ACCEPTED, "succeeded"),
        (late.task_id, OWNERSHIP_LOST, ""),
        (conflicting.task_id, CONFLICT, ""),
        (foreign.task_id, NOT_FOUND, ""),
        (crashed.task_id, ACCEPTED, "retry"),
    ]
    assert settle(worker.session_id, batch, using=USING) == answers
    assert_audit_clean()


def test_one_attempt_twice_in_a_batch_is_refused_before_anything_is_written(worker: Worker):
    submit_tasks(2)
    one, other = worker.acquire(2)
    batch = [settlement_of(other), settlement_of(one), settlement_of(one, Outcome.FAILED)]
    with pytest.raises(InvalidInput, match="twice"):
        settle(worker.session_id, batch, using=USING)
    assert Lease.objects.count() == 2


def test_an_empty_batch_is_answered_empty(worker: Worker):
    assert settle(worker.session_id, [], using=USING) == []


@pytest.mark.parametrize(
    "result",
    [
        "NaN",
        "[Infinity]",
        '{"a":-Infinity}',
        "1e400",
        '"\\ud800"',
        '{"\\udc00":1}',
        '"\ud800"',
        '{"a":1,"a":2}',
        '{"a":1,"\\u0061":2}',
        "[" * 65 + "]" * 65,
        "[" * 20_000,
        "",
        "{",
        "1 2",
        '"\x00"',
        "1" * 5_000,
        "'a'",
    ],
)
def test_a_result_that_is_no_strict_json_is_refused_before_anything_is_written(worker: Worker, result):
    submit_task()
    assignment = worker.acquire_one()
    with pytest.raises(InvalidInput, match=f"{assignment.task_id}.1: result"):
        worker.settle(assignment, result=result)
    assert state_of(assignment.task_id) == "active"
    assert worker.settle(assignment, Outcome.FAILED).status == ACCEPTED


@pytest.mark.parametrize(
    "result",
    [
        "null",
        "-0.0",
        "1e300",
        '"\\u0000"',
        '{"\\u0000":"\\u0000"}',
        '"😀"',
        '"\\ud83d\\ude00"',
        "[" * 64 + "]" * 64,
        '""',
    ],
)
def test_a_strict_result_is_kept_byte_for_byte(worker: Worker, result):
    submit_task()
    worker.settle(worker.acquire_one(), result=result)
    assert execute("select result::text from ledgence_task") == [(result,)]


@pytest.mark.parametrize("character", ["a", "é"])
def test_a_results_limit_is_exact_in_bytes(worker: Worker, monkeypatch, character):
    monkeypatch.setattr(limits, "RESULT_BYTES", 1_000)
    text = f'"{character * (998 // len(character.encode()))}"'
    submit_task()
    assignment = worker.acquire_one()
    with pytest.raises(InvalidInput, match="too large: 1001 bytes"):
        worker.settle(assignment, result=text + " ")
    assert worker.settle(assignment, result=text).status == ACCEPTED


def test_a_result_of_the_largest_size_is_kept(worker: Worker):
    submit_task()
    assert worker.settle(worker.acquire_one(), result=f'"{"a" * (limits.RESULT_BYTES - 2)}"').status == ACCEPTED
    assert execute("select length(result::text) from ledgence_task") == [(limits.RESULT_BYTES,)]


def test_a_reports_limit_is_exact_in_bytes(worker: Worker, monkeypatch):
    monkeypatch.setattr(limits, "REPORT_BYTES", 1_000)
    submit_task()
    assignment = worker.acquire_one()
    room = 1_000 - len('{"error":null,"exit_status":null,"output":"","seconds":0.0}')
    with pytest.raises(InvalidInput, match="the report has 1001 bytes"):
        worker.settle(assignment, output="a" * (room + 1))
    assert state_of(assignment.task_id) == "active"
    assert worker.settle(assignment, output="a" * room).status == ACCEPTED


@pytest.mark.parametrize(("outcome", "result"), [(Outcome.SUCCEEDED, None), (Outcome.FAILED, "1")])
def test_a_result_belongs_to_success_alone(worker: Worker, outcome, result):
    submit_task()
    settlement = replace(settlement_of(worker.acquire_one()), outcome=outcome, result=result)
    with pytest.raises(InvalidInput, match="result belongs"):
        settle(worker.session_id, [settlement], using=USING)


HOSTILE = [
    "nul \x00 here",
    "half \ud800 pair",
    "\udc00\ud800",
    "%s {0} $1 '; drop table x; --",
    "\u202etext",
    "a b",
    "",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_in_a_report_can_keep_an_attempt_from_ending(worker: Worker, text):
    submit_task(retry_on=("some.Error",))
    error = ErrorReport(classes=(f"some.{text}", "some.Error"), message=text, traceback=text)
    answer = worker.settle(worker.acquire_one(), Outcome.FAILED, error=error, output=text)
    assert (answer.status, answer.consequence) == (ACCEPTED, "retry")
    [attempt] = attempts_of(answer.task_id)
    assert attempt.report["output"] == text.encode("utf-8", "replace").decode()


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_in_a_late_report_fails(worker: Worker, text):
    submit_task()
    assignment = worker.acquire_one()
    expire_leases()
    assert worker.settle(assignment, Outcome.FAILED, error=raised(text, message=text)).status == OWNERSHIP_LOST
    assert attempts_of(assignment.task_id)[0].late_outcome == "failed"


@pytest.mark.parametrize("seconds", [float("nan"), float("inf")])
def test_a_report_that_json_cannot_hold_is_refused_before_anything_is_written(worker: Worker, seconds):
    submit_task()
    assignment = worker.acquire_one()
    with pytest.raises(InvalidInput, match="report"):
        worker.settle(assignment, seconds=seconds)
    assert worker.settle(assignment).status == ACCEPTED


def test_settling_in_a_callers_transaction_stands_and_falls_with_it(worker: Worker):
    task = submit_task()
    assignment = worker.acquire_one()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        assert worker.settle(assignment).status == ACCEPTED
        raise ZeroDivisionError
    assert state_of(task) == "active"
    assert worker.settle(assignment).status == ACCEPTED


@pytest.mark.django_db(transaction=True)
def test_a_lease_that_expires_while_its_row_is_waited_for_is_lost():
    worker = Worker()
    task = submit_task()
    assignment = worker.acquire_one()
    with Rival() as rival:
        with transaction.atomic():
            waiting = hold_lease_until_it_expires(rival, lambda: worker.settle(assignment))
        assert waiting.result(20).status == OWNERSHIP_LOST
    assert state_of(task) == "active"
    assert_audit_clean()


@pytest.mark.django_db(transaction=True)
def test_a_settlement_that_waits_for_expiry_is_late():
    worker = Worker()
    task = submit_task()
    assignment = worker.acquire_one()
    expire_leases()
    with Rival() as rival:
        with transaction.atomic():
            expire(using=USING)
            waiting = rival.begin(lambda: worker.settle(assignment))
            rival.wait_until_blocked(waiting)
        assert waiting.result(20).status == OWNERSHIP_LOST
    assert outcomes_of(task) == ["lost"] and attempts_of(task)[0].late_outcome == "succeeded"
    assert_audit_clean()


@pytest.mark.django_db(transaction=True)
def test_a_lease_that_stays_held_is_busy_and_nothing_of_the_batch_is_decided(settings):
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 0.05}
    worker = Worker()
    submit_tasks(2)
    free, held = worker.acquire(2)
    with Rival() as rival, rival.transaction():
        rival.execute("select 1 from ledgence_lease where task_id = %s for update", [held.task_id])
        with pytest.raises(Busy, match="settle"):
            settle(worker.session_id, [settlement_of(free), settlement_of(held)], using=USING)
        assert worker.settle(free).status == ACCEPTED
    assert worker.settle(held).status == ACCEPTED
