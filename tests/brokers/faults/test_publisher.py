"""What the SQS publisher tells of each entry when a call goes wrong, and what the broker has of it then."""

import time
from collections.abc import Sequence
from uuid import uuid4

import pytest

from ledgence_worker.delivery.ports import DispatchPublisher, Publication, PublishStatus
from ledgence_worker.errors import BrokerUnavailable
from tests.brokers.faults import proxy as faults
from tests.brokers.faults.broker_state import drained
from tests.brokers.faults.conftest import SLACK_SECONDS, TIMEOUT_SECONDS

pytestmark = pytest.mark.broker

C, R, F, U = PublishStatus.CONFIRMED, PublishStatus.REFUSED, PublishStatus.FAILED, PublishStatus.UNCERTAIN


def batch(*bodies: str) -> list[Publication]:
    return [Publication(publication_id=uuid4(), body=body) for body in bodies]


def statuses(publisher: DispatchPublisher, entries: Sequence[Publication]) -> list[PublishStatus]:
    results = {result.publication_id: result for result in publisher.publish(entries)}
    assert all(result.message_id is None or result.status is C for result in results.values())
    return [results[entry.publication_id].status for entry in entries]


def without_message_id(entry: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in entry.items() if name != "MessageId"}


@pytest.mark.parametrize(
    ("fault", "told", "sent"),
    [
        pytest.param(faults.lost, [U, U, U], "abc", id="lost"),
        pytest.param(faults.late, [U, U, U], "abc", id="late"),
        pytest.param(faults.truncated, [U, U, U], "abc", id="truncated"),
        pytest.param(faults.cut, [U, U, U], "abc", id="cut"),
        pytest.param(faults.broken_after, [U, U, U], "abc", id="broken_after"),
        pytest.param(faults.broken, [U, U, U], "", id="broken"),
        pytest.param(faults.unavailable, [U, U, U], "", id="unavailable"),
        pytest.param(faults.reset, [U, U, U], "", id="reset"),
        pytest.param(faults.hanging, [U, U, U], "", id="hanging"),
        pytest.param(faults.times(2), [C, C, C], "aabbcc", id="doubled"),
        pytest.param(faults.omitting(1), [C, U, C], "abc", id="omitting"),
        pytest.param(faults.rewriting(without_message_id), [U, U, U], "abc", id="without_message_id"),
        pytest.param(faults.rewriting(faults.with_another_id), [U, U, U], "abc", id="other_ids"),
        pytest.param(faults.failing(0, 2), [F, C, F], "b", id="failing"),
        pytest.param(
            faults.failing(1, code="RequestThrottled", is_senders=True), [C, F, C], "ac", id="throttled_entry"
        ),
        pytest.param(
            faults.failing(1, code="InvalidMessageContents", is_senders=True), [C, R, C], "ac", id="refused_entry"
        ),
    ],
)
def test_each_entry_is_told_as_what_is_known_of_it(server, options, proxy, publisher, fault, told, sent) -> None:
    proxy.spoil("SendMessageBatch", fault)
    entries = batch("a", "b", "c")
    began = time.monotonic()
    assert statuses(publisher, entries) == told
    assert time.monotonic() - began < TIMEOUT_SECONDS + SLACK_SECONDS
    # One call is one request: whoever publishes repeats it, and knows.
    assert proxy.seen == ["SendMessageBatch"]
    assert "".join(drained(server, options)) == sent
    # What is not known, and what is not there, is sent again under the same publication.
    assert statuses(publisher, entries) == [C, C, C]
    assert drained(server, options) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("fault", "reason"), [(faults.throttled, "throttled"), (faults.denied, "may not do sqs:SendMessage")]
)
def test_a_call_that_the_broker_refuses_sent_nothing(server, options, proxy, publisher, fault, reason) -> None:
    proxy.spoil("SendMessageBatch", fault)
    with pytest.raises(BrokerUnavailable, match=reason):
        publisher.publish(batch("a"))
    assert proxy.seen == ["SendMessageBatch"]
    assert drained(server, options) == []
    assert statuses(publisher, batch("a")) == [C]
