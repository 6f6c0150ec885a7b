"""Quarantine: messages that can never be claimed are recorded once, whatever is in them."""

from uuid import uuid4

import pytest

from ledgence.models import QuarantinedMessage, Queue
from ledgence.operations.quarantine import quarantine
from ledgence_worker import limits
from ledgence_worker.claims import RefusedMessage
from ledgence_worker.errors import InvalidInput, NotFound
from tests.ledger.actors import USING, Worker


@pytest.fixture
def worker(db) -> Worker:
    Queue.objects.create(tenant="default", namespace="default", name="far", mode="external", destination="there")
    return Worker()


def message(number: int = 1, **changes: str) -> RefusedMessage:
    values = {
        "message_id": f"message-{number}",
        "reason": "malformed",
        "detail": "no JSON",
        "body": "rubbish",
    } | changes
    return RefusedMessage(**values)


def test_a_message_is_recorded_as_it_was(worker: Worker):
    quarantine(worker.session_id, "far", [message()], using=USING)
    row = QuarantinedMessage.objects.get()
    assert (row.queue.name, row.session_id, row.message_id) == ("far", worker.session_id, "message-1")
    assert (row.reason, row.detail, row.body) == ("malformed", "no JSON", "rubbish")
    assert row.received_at is not None


def test_a_repeat_records_nothing_twice(worker: Worker):
    quarantine(worker.session_id, "far", [message(1), message(2)], using=USING)
    quarantine(Worker().session_id, "far", [message(2, detail="again"), message(3)], using=USING)
    rows = QuarantinedMessage.objects.order_by("message_id").values_list("message_id", "detail")
    assert list(rows) == [("message-1", "no JSON"), ("message-2", "no JSON"), ("message-3", "no JSON")]


def test_one_message_may_stand_twice_in_a_batch(worker: Worker):
    quarantine(worker.session_id, "far", [message(), message()], using=USING)
    assert QuarantinedMessage.objects.count() == 1


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "\u202etext", "<script>alert(1)</script>", ""])
def test_whatever_is_in_a_message_is_kept_as_text(worker: Worker, text):
    quarantine(worker.session_id, "far", [message(body=text, detail=text)], using=USING)
    row = QuarantinedMessage.objects.get()
    assert row.body == row.detail == text.replace("\0", "\\0").replace("\ud800", "\\ud800")


def test_the_beginning_of_a_large_message_is_kept(worker: Worker):
    quarantine(worker.session_id, "far", [message(body="x" * 300_000, detail="y" * 300_000)], using=USING)
    row = QuarantinedMessage.objects.get()
    assert (len(row.body), len(row.detail)) == (limits.REFUSED_BODY_CHARACTERS, limits.REFUSED_DETAIL_CHARACTERS)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"reason": "ugly"}, "reason"),
        ({"message_id": ""}, "id"),
        ({"message_id": "x" * 256}, "id"),
        ({"message_id": "a\nb"}, "id"),
        ({"message_id": "a\0b"}, "id"),
    ],
    ids=["reason", "empty", "long", "newline", "nul"],
)
def test_what_no_row_can_hold_is_refused_before_anything_is_written(worker: Worker, changes, what):
    with pytest.raises(InvalidInput, match=what):
        quarantine(worker.session_id, "far", [message(1), message(2, **changes)], using=USING)
    assert QuarantinedMessage.objects.count() == 0


@pytest.mark.parametrize("count", [0, limits.MESSAGES_MAX + 1])
def test_batches_have_a_size(worker: Worker, count):
    with pytest.raises(InvalidInput, match="number of messages"):
        quarantine(worker.session_id, "far", [message(number) for number in range(count)], using=USING)


def test_a_queue_that_the_session_does_not_serve_is_not_found(worker: Worker):
    for session, queue in (
        (worker.session_id, "unknown"),
        (Worker(queues=["other"]).session_id, "far"),
        (Worker(exclude_queues=["far"]).session_id, "far"),
        (Worker(tenant="other").session_id, "far"),
        (uuid4(), "far"),
    ):
        with pytest.raises(NotFound, match="serves no queue"):
            quarantine(session, queue, [message()], using=USING)
    assert QuarantinedMessage.objects.count() == 0
