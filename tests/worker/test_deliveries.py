"""Messages are read strictly, several deliveries are one claim, and answers are believed only where they match."""

from dataclasses import replace
from uuid import uuid4

import pytest

from ledgence_worker import limits
from ledgence_worker.claims import ClaimAnswer, Claimed, ClaimStatus, Dispatch
from ledgence_worker.deliveries import Mismatch, check_answers, read_messages, refuse
from ledgence_worker.delivery.ports import Message
from ledgence_worker.protocol import Session
from tests.worker.fakes import make_assignment
from tests.worker.routed import QUEUE, body_of

SESSION = Session(
    session_id=uuid4(),
    lease_seconds=60,
    cleanup_seconds=30,
    remaining_seconds=1000,
    tenant="default",
    namespace="default",
)
WORK = [make_assignment(queue=QUEUE) for _ in range(3)]


def message(body: str, message_id: str = "m1") -> Message:
    return Message(message_id=message_id, receipt=f"r {message_id}", body=body)


def dispatch(assignment) -> Dispatch:
    return Dispatch(task_id=assignment.task_id, generation=assignment.number)


def test_several_deliveries_of_one_dispatch_are_one_with_several_messages():
    first, second = WORK[:2]
    messages = [message(body_of(one), f"m{n}") for n, one in enumerate((first, second, first, first))]
    found = read_messages(messages, SESSION, QUEUE)
    assert found.named == {dispatch(first): [messages[0], *messages[2:]], dispatch(second): [messages[1]]}
    assert found.refusals == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("no JSON", "malformed"),
        ("", "malformed"),
        ("[]", "malformed"),
        (body_of(WORK[0]).replace('"generation"', '"generatoin"'), "malformed"),
        (body_of(WORK[0], v=2), "unknown_version"),
        (body_of(WORK[0], tenant="other"), "foreign"),
        (body_of(WORK[0], namespace="other"), "foreign"),
        (body_of(WORK[0], queue="near"), "foreign"),
        ("x" * 16 * 1024, "oversized"),
        ("\ud800", "malformed"),
    ],
    ids=["text", "empty", "array", "member", "version", "tenant", "namespace", "queue", "large", "surrogate"],
)
def test_what_cannot_be_claimed_is_told_with_its_reason_and_costs_the_others_nothing(body, reason):
    found = read_messages([message(body), message(body_of(WORK[1]), "m2")], SESSION, QUEUE)
    [refusal] = found.refusals
    assert (refusal.message.message_id, refusal.record.message_id, refusal.record.reason) == ("m1", "m1", reason)
    assert refusal.record.detail
    assert list(found.named) == [dispatch(WORK[1])]


def test_a_record_keeps_the_beginning_as_text_that_can_be_sent():
    record = refuse(message("\ud800\0" + "x" * 10_000), "malformed", "y" * 10_000).record
    assert record.body.startswith("\\ud800\0xxx")
    assert len(record.body) == limits.REFUSED_BODY_CHARACTERS
    assert len(record.detail) == limits.REFUSED_DETAIL_CHARACTERS
    record.body.encode()


@pytest.mark.parametrize("name", ["", "m" * 256, "m\n", "\ud800"], ids=["none", "long", "line feed", "surrogate"])
def test_a_message_without_a_usable_name_gets_one(name):
    record = refuse(message("x", name), "malformed", "no").record
    assert len(record.message_id) == 64
    assert record.message_id == refuse(message("y", name), "malformed", "no").record.message_id
    assert record.message_id != refuse(message("x", f"{name}\n"), "malformed", "no").record.message_id


def claimed(*assignments, **changes) -> Claimed:
    answers = tuple(
        ClaimAnswer(task_id=one.task_id, generation=one.number, status=ClaimStatus.CLAIMED) for one in assignments
    )
    return replace(Claimed(answers=answers, assignments=assignments), **changes)


def test_answers_that_match_in_any_order_are_believed():
    over = ClaimAnswer(task_id=WORK[2].task_id, generation=1, status=ClaimStatus.TERMINAL_OR_SUPERSEDED)
    whole = claimed(*WORK[:2])
    check_answers(replace(whole, answers=(over, *whole.answers)), list(map(dispatch, WORK)), SESSION)


@pytest.mark.parametrize(
    "answer",
    [
        claimed(WORK[0]),
        claimed(*WORK),
        claimed(WORK[0], WORK[2]),
        claimed(WORK[0], WORK[0]),
        claimed(*WORK[:2], assignments=(WORK[0],)),
        claimed(*WORK[:2], assignments=(WORK[0], WORK[0])),
        claimed(*WORK[:2], assignments=tuple(WORK)),
        claimed(*WORK[:2], assignments=(WORK[0], replace(WORK[1], number=2))),
        claimed(*WORK[:2], assignments=(WORK[0], replace(WORK[1], tenant="other"))),
        claimed(*WORK[:2], assignments=(WORK[0], replace(WORK[1], namespace="other"))),
    ],
    ids=[
        "one missing",
        "one too many",
        "another one",
        "one twice",
        "assignment missing",
        "assignment twice",
        "assignment of another",
        "another number",
        "another tenant",
        "another namespace",
    ],
)
def test_answers_that_do_not_match_are_not_believed(answer):
    with pytest.raises(Mismatch):
        check_answers(answer, list(map(dispatch, WORK[:2])), SESSION)
