"""The reading of a broker's answers: exactly one for each entry, or what became of the batch is not known."""

from collections.abc import Sequence
from dataclasses import replace

from ledgence_worker.delivery.ports import Publication, Published, PublishStatus


def match(batch: Sequence[Publication], answers: Sequence[Published]) -> list[Published]:
    """Return the answers in the batch's order. Those that do not match it exactly make all of it uncertain.

    A confirmation without the broker's message id is none: that entry is uncertain, the others count.
    """
    found = {answer.publication_id: answer for answer in answers}
    wanted = [publication.publication_id for publication in batch]
    if len(found) != len(answers) or found.keys() != set(wanted):
        return uncertain(batch, f"{len(answers)} answers to {len(batch)} entries do not match them one by one")
    return [_believed(found[publication]) for publication in wanted]


def uncertain(batch: Sequence[Publication], detail: str) -> list[Published]:
    """Answer for a broker that was not understood, or not heard."""
    return _all(batch, PublishStatus.UNCERTAIN, detail)


def failed(batch: Sequence[Publication], detail: str) -> list[Published]:
    """Answer for a broker that was not reached."""
    return _all(batch, PublishStatus.FAILED, detail)


def _all(batch: Sequence[Publication], status: PublishStatus, detail: str) -> list[Published]:
    return [Published(publication_id=one.publication_id, status=status, detail=detail) for one in batch]


def _believed(answer: Published) -> Published:
    if answer.status is PublishStatus.CONFIRMED and not answer.message_id:
        return replace(answer, status=PublishStatus.UNCERTAIN, detail="the broker confirmed it without a message id")
    return answer
