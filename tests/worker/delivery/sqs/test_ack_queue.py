"""Messages are received whatever the broker answers, and each receipt gets its own answer."""

import logging
import threading
from dataclasses import replace

import pytest
from botocore.retries.standard import ExponentialBackoff

from ledgence_worker.delivery.ports import Message, ReceiptStatus
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable
from tests.worker.delivery.sqs.server import Reply, error, told

DONE, OVER, FAILED = ReceiptStatus.DONE, ReceiptStatus.OVER, ReceiptStatus.FAILED
#: Both do the same with receipts.
VERBS = pytest.mark.parametrize("verb", ["acknowledge", "give_back"])


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch):
    """Let boto3 repeat at once what it repeats."""
    monkeypatch.setattr(ExponentialBackoff, "delay_amount", lambda self, context: 0)


def record(name, **changes):
    return {"MessageId": f"m{name}", "ReceiptHandle": f"r{name}", "Body": f"b{name}", "MD5OfBody": "x"} | changes


def message(name):
    return Message(message_id=f"m{name}", receipt=f"r{name}", body=f"b{name}")


def entries(*ids):
    return [{"Id": str(n)} for n in ids]


def failed(n, code, **more):
    return {"Id": str(n), "Code": code, "Message": "No.", "SenderFault": True} | more


def statuses(answers):
    return [(answer.receipt, answer.status) for answer in answers]


def test_messages_are_received_for_a_while(server, options, make_queue):
    server.replies.append(told(Messages=[record(1), record(2)]))
    queue = make_queue(replace(options, visibility_timeout_seconds=77))
    assert queue.receive(5, 2.9) == [message(1), message(2)]
    assert server.actions == ["ReceiveMessage"]
    assert server.requests[0].body == {
        "QueueUrl": server.queue_url,
        "MaxNumberOfMessages": 5,
        "WaitTimeSeconds": 2,
        "VisibilityTimeout": 77,
    }


@pytest.mark.parametrize(
    ("count", "wait", "sent_count", "sent_wait"), [(99, 99, 10, 20), (1, 0.9, 1, 0), (10, -1, 10, 0), (3, 20.0, 3, 20)]
)
def test_count_and_wait_are_kept_in_the_limits_of_sqs(server, queue, count, wait, sent_count, sent_wait):
    assert list(queue.receive(count, wait)) == []
    body = server.requests[0].body
    assert (body["MaxNumberOfMessages"], body["WaitTimeSeconds"]) == (sent_count, sent_wait)
    assert type(body["WaitTimeSeconds"]) is int


def test_for_no_slot_nothing_is_asked(server, queue):
    assert list(queue.receive(0, 20)) == []
    assert server.requests == []


@pytest.mark.parametrize("reply", [{}, {"Messages": []}, {"Messages": None}])
def test_an_empty_answer_is_no_message(server, queue, reply):
    server.replies.append(told(**reply))
    assert list(queue.receive(10, 0)) == []


def test_more_messages_than_asked_for_are_given_back(server, queue):
    server.replies.append(told(Messages=[record(1), record(2), record(3)]))
    assert queue.receive(1, 0) == [message(1)]
    assert server.actions == ["ReceiveMessage", "ChangeMessageVisibilityBatch"]
    assert server.requests[1].body["Entries"] == [
        {"Id": "0", "ReceiptHandle": "r2", "VisibilityTimeout": 0},
        {"Id": "1", "ReceiptHandle": "r3", "VisibilityTimeout": 0},
    ]


def test_records_that_lack_something_harm_no_other(server, queue, caplog):
    bad = [
        {},
        record(1, MessageId=None),
        record(2, ReceiptHandle=None),
        record(3, ReceiptHandle=""),
        record(4, MessageId=5),
        record(5, Body=None),
        record(6, Body=["x"]),
    ]
    server.replies.append(told(Messages=[*bad, record(7)]))
    with caplog.at_level(logging.WARNING):
        assert queue.receive(10, 0) == [replace(message(5), body=""), replace(message(6), body=""), message(7)]
    assert [entry.message for entry in caplog.records if entry.name.startswith("ledgence")] == [
        f"message ignored queue={server.queue_url} message_id={name}" for name in ("None", "None", "'m2'", "'m3'", "5")
    ]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (error("OverLimit", status=403), "ReceiveMessage on .* is throttled"),
        (error("RequestThrottled", status=403), "is throttled"),
        (error("QueueDoesNotExist"), "There is no queue"),
        (error("AccessDenied", status=403), "may not do sqs:ReceiveMessage on"),
        (error("InternalError", status=500), "answered with 500"),
        (Reply(cut=0), "ConnectionClosedError"),
        (Reply(body=b"[]"), "ReceiveMessage on"),
        (Reply(body=b'{"Messages": 5}'), "ReceiveMessage on"),
        (Reply(body=b'{"Messages": [5]}'), "ReceiveMessage on"),
        (Reply(hang=True), "ReadTimeoutError"),
    ],
)
def test_a_failed_receive_says_why_and_is_not_repeated(server, options, make_queue, reply, reason):
    server.replies.append(reply)
    queue = make_queue(replace(options, operation_timeout_seconds=0.2))
    is_final = "There is no queue" in reason or "may not do" in reason
    with pytest.raises(BrokerRefused if is_final else BrokerUnavailable, match=reason):
        queue.receive(1, 0)
    assert server.actions == ["ReceiveMessage"]
    # And the next one is a call like any other.
    server.replies.append(told(Messages=[record(1)]))
    assert queue.receive(1, 0) == [message(1)]


def test_an_answer_may_take_as_long_as_the_wait_and_an_operation(options, make_queue):
    queue = make_queue(replace(options, operation_timeout_seconds=0.5))
    timeouts = {wait: queue._receiver(wait).meta.config.read_timeout for wait in (0, 1, 20)}
    assert timeouts == {0: 0.5, 1: 1.5, 20: 20.5}
    assert queue._receiver(20) is queue._receiver(20)


def test_receipts_are_removed_by_tens(server, queue):
    receipts = [f"r{n}" for n in range(12)]
    server.replies.extend([told(Successful=entries(*range(10))), told(Successful=entries(1, 0))])
    assert statuses(queue.acknowledge(receipts)) == [(receipt, DONE) for receipt in receipts]
    assert server.actions == ["DeleteMessageBatch"] * 2
    assert server.requests[1].body == {
        "QueueUrl": server.queue_url,
        "Entries": [{"Id": "0", "ReceiptHandle": "r10"}, {"Id": "1", "ReceiptHandle": "r11"}],
    }


def test_receipts_are_given_back_by_making_them_visible(server, queue):
    server.replies.append(told(Successful=entries(0)))
    assert statuses(queue.give_back(["r"])) == [("r", DONE)]
    assert server.actions == ["ChangeMessageVisibilityBatch"]
    assert server.requests[0].body["Entries"] == [{"Id": "0", "ReceiptHandle": "r", "VisibilityTimeout": 0}]


@VERBS
def test_for_no_receipt_nothing_is_asked(server, queue, verb):
    assert list(getattr(queue, verb)([])) == []
    assert server.requests == []


@VERBS
def test_each_receipt_has_its_own_answer(server, queue, verb):
    codes = [
        failed(1, "ReceiptHandleIsInvalid"),
        failed(2, "AWS.SimpleQueueService.MessageNotInflight"),
        failed(3, "InvalidParameterValue"),
        failed(4, "InternalError", SenderFault=False),
        failed(5, "RequestThrottled"),
        {"Id": "6"},
    ]
    server.replies.append(told(Successful=entries(0), Failed=codes))
    answers = getattr(queue, verb)(list("abcdefgh"))
    assert statuses(answers) == list(
        zip("abcdefgh", [DONE, OVER, OVER, OVER, FAILED, FAILED, FAILED, FAILED], strict=True)
    )
    assert answers[1].detail == "ReceiptHandleIsInvalid: No."


@VERBS
@pytest.mark.parametrize(
    "reply",
    [
        told(),
        told(Successful=entries(0, 1, 2)),
        told(Successful=entries(0, 0)),
        told(Successful=[{}]),
        Reply(body=b"<"),
    ],
)
def test_an_answer_that_does_not_match_says_nothing(server, queue, verb, reply):
    server.replies.append(reply)
    assert statuses(getattr(queue, verb)(["a", "b"])) == [("a", FAILED), ("b", FAILED)]


@VERBS
@pytest.mark.parametrize(
    "reply",
    [
        error("QueueDoesNotExist"),
        error("AccessDenied", status=403),
        Reply(body=b"[]"),
        Reply(body=b'{"Successful": 5}'),
    ],
)
def test_a_call_that_fails_never_raises(server, queue, verb, reply):
    server.replies.append(reply)
    assert statuses(getattr(queue, verb)(["a", "b"])) == [("a", FAILED), ("b", FAILED)]
    assert len(server.requests) == 1


@VERBS
@pytest.mark.parametrize(
    "reply", [error("InternalError", status=500), error("RequestThrottled", status=403), Reply(cut=0), Reply(hang=True)]
)
def test_a_call_that_may_succeed_later_is_repeated_twice(server, options, make_queue, verb, reply):
    queue = make_queue(replace(options, operation_timeout_seconds=0.2))
    server.replies.extend([reply, reply, told(Successful=entries(0)), reply, reply, reply])
    assert statuses(getattr(queue, verb)(["a"])) == [("a", DONE)]
    assert statuses(getattr(queue, verb)(["a"])) == [("a", FAILED)]
    assert len(server.requests) == 6


@VERBS
def test_a_broker_that_is_not_there_never_raises(options, make_queue, verb):
    queue = make_queue(replace(options, endpoint_url="http://127.0.0.1:1"))
    [answer] = getattr(queue, verb)(["a"])
    assert answer.status == FAILED
    assert "Could not connect" in answer.detail


@VERBS
def test_a_call_that_is_refused_for_one_receipt_is_taken_apart(server, queue, verb):
    no = error("ReceiptHandleIsInvalid", status=404)
    server.replies.extend([no, told(Successful=entries(0)), no, error("QueueDoesNotExist")])
    answers = getattr(queue, verb)(list("abcd"))
    assert statuses(answers) == [("a", DONE), ("b", OVER), ("c", FAILED), ("d", FAILED)]
    assert [len(request.body["Entries"]) for request in server.requests] == [4, 1, 1, 1]


def test_receiving_and_acknowledging_go_on_beside_one_another(server, queue):
    server.replies.append(Reply(hang=True))
    failures = []

    def receive():
        try:
            queue.receive(1, 20)
        except BrokerUnavailable as error:
            failures.append(error)

    thread = threading.Thread(target=receive)
    thread.start()
    while not server.requests:
        thread.join(0.01)
    server.replies.append(told(Successful=entries(0)))
    assert statuses(queue.acknowledge(["a"])) == [("a", DONE)]
    assert thread.is_alive()
    server.released.set()
    thread.join()
    assert len(failures) == 1
