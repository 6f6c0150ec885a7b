"""A broker's answers count when there is exactly one for each entry."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

import pytest

from ledgence.publishing.matching import match
from ledgence_worker.delivery.ports import Publication, Published, PublishStatus

BATCH = [Publication(publication_id=uuid4(), body="{}") for _ in range(3)]


def answer(place: int, status: PublishStatus = PublishStatus.CONFIRMED, **fields: str) -> Published:
    named = {"message_id": f"m{place}"} if status is PublishStatus.CONFIRMED else {}
    return Published(publication_id=BATCH[place].publication_id, status=status, **named | fields)


def statuses(answers: Sequence[Published]) -> list[PublishStatus]:
    assert [one.publication_id for one in answers] == [one.publication_id for one in BATCH]
    return [one.status for one in answers]


def test_answers_are_returned_in_the_order_of_the_batch() -> None:
    answers = [answer(2, PublishStatus.REFUSED), answer(0), answer(1, PublishStatus.FAILED)]
    assert match(BATCH, answers) == [answers[1], answers[2], answers[0]]


@pytest.mark.parametrize(
    "answers",
    [
        [],
        [answer(0), answer(1)],
        [answer(0), answer(1), answer(1)],
        [answer(0), answer(1), answer(1, PublishStatus.REFUSED)],
        [answer(0), answer(1), answer(2), answer(2)],
        [answer(0), answer(1), replace(answer(2), publication_id=uuid4())],
        [answer(0), answer(1), answer(2), replace(answer(2), publication_id=uuid4())],
    ],
    ids=["none", "missing", "repeated", "contradicting", "too many", "foreign", "foreign besides"],
)
def test_answers_that_do_not_match_make_the_whole_batch_uncertain(answers: list[Published]) -> None:
    found = match(BATCH, answers)
    assert statuses(found) == [PublishStatus.UNCERTAIN] * 3
    assert all(f"{len(answers)} answers to 3 entries" in one.detail for one in found)


@pytest.mark.parametrize("message_id", [None, ""])
def test_a_confirmation_without_a_message_id_is_uncertain_and_the_others_count(message_id: str | None) -> None:
    found = match(BATCH, [answer(0), replace(answer(1), message_id=message_id), answer(2, PublishStatus.REFUSED)])
    assert statuses(found) == [PublishStatus.CONFIRMED, PublishStatus.UNCERTAIN, PublishStatus.REFUSED]
    assert found[1].detail == "the broker confirmed it without a message id"
