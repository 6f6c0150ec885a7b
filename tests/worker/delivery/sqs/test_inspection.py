"""A queue is checked before it is used, and what is wrong with it is told in plain words."""

import json
from dataclasses import replace

import pytest

from ledgence_worker.errors import BrokerRefused, BrokerUnavailable, InvalidInput
from tests.worker.delivery.sqs.server import Reply, error, told

ARN = "arn:aws:sqs:eu-west-1:123456789012:mail"
GOOD = {
    "QueueArn": ARN,
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "VisibilityTimeout": "0",
    "RedrivePolicy": json.dumps({"deadLetterTargetArn": "arn", "maxReceiveCount": 10}),
}


@pytest.fixture(params=["publisher", "queue"])
def adapter(request):
    """Both sides of the adapter: they check alike."""
    return request.getfixturevalue(request.param)


def test_a_good_queue_is_asked_once_and_told_by_its_arn(server, adapter):
    server.replies.append(told(Attributes=GOOD))
    inspection = adapter.inspect()
    assert (inspection.address, inspection.warnings) == (ARN, ())
    assert server.actions == ["GetQueueAttributes"]
    assert server.requests[0].body == {"QueueUrl": server.queue_url, "AttributeNames": ["All"]}


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"FifoQueue": "true"}, "is a FIFO queue: a Standard queue is needed"),
        ({"DelaySeconds": "5"}, "delays each message by 5 s: set its DelaySeconds to 0"),
        ({"MaximumMessageSize": "16383"}, "takes messages of 16383 bytes at most: set its MaximumMessageSize to 16384"),
    ],
)
def test_a_queue_that_cannot_serve_is_refused(server, adapter, attributes, reason):
    server.replies.append(told(Attributes=GOOD | attributes))
    with pytest.raises(BrokerRefused, match=reason):
        adapter.inspect()


@pytest.mark.parametrize(
    ("attributes", "warning"),
    [
        ({"RedrivePolicy": None}, "has no RedrivePolicy"),
        ({"RedrivePolicy": json.dumps({"maxReceiveCount": 2})}, "received 2 times: set its maxReceiveCount to 3"),
        ({"RedrivePolicy": json.dumps({"maxReceiveCount": "1"})}, "received 1 times: set its maxReceiveCount to 3"),
        ({"MessageRetentionPeriod": "3599"}, "drops messages after 3599 s"),
    ],
)
def test_what_may_not_be_wanted_is_a_warning(server, publisher, attributes, warning):
    server.replies.append(told(Attributes={k: v for k, v in (GOOD | attributes).items() if v is not None}))
    [told_warning] = publisher.inspect().warnings
    assert warning in told_warning
    assert server.queue_url in told_warning


@pytest.mark.parametrize(
    "attributes",
    [
        {"MaximumMessageSize": "16384", "MessageRetentionPeriod": "3600"},
        {"RedrivePolicy": json.dumps({"maxReceiveCount": 3})},
        {"RedrivePolicy": "{"},
        {"RedrivePolicy": "[]"},
        {"RedrivePolicy": "{}"},
        {"RedrivePolicy": json.dumps({"maxReceiveCount": None})},
        {"DelaySeconds": "none", "MaximumMessageSize": "", "MessageRetentionPeriod": "9" * 5000},
        {"FifoQueue": "false"},
    ],
)
def test_what_is_good_or_not_known_is_no_warning(server, publisher, attributes):
    server.replies.append(told(Attributes=GOOD | attributes))
    assert publisher.inspect().warnings == ()


@pytest.mark.parametrize("arn", [None, "", "a" * 256, "a\nb"])
def test_a_broker_that_tells_little_gets_an_address_of_region_and_path(server, publisher, arn):
    server.replies.append(
        told(Attributes={"ApproximateNumberOfMessages": "0"} | ({} if arn is None else {"QueueArn": arn}))
    )
    assert publisher.inspect().address == "sqs:eu-west-1:/123456789012/mail"


@pytest.mark.parametrize(
    ("reply", "reasons"),
    [
        (error("QueueDoesNotExist"), ["There is no queue", "in region eu-west-1 at http://", "Create it, or correct"]),
        (error("QueueDoesNotExist", was="AWS.SimpleQueueService.NonExistentQueue"), ["There is no queue"]),
        (error("InvalidAddress"), ["There is no queue"]),
        (error("AccessDenied", status=403), ["The credentials may not do sqs:GetQueueAttributes", "No.", "Allow it"]),
        (error("AccessDeniedException"), ["The credentials may not do sqs:GetQueueAttributes"]),
        (error("InvalidClientTokenId", status=403), ["the credentials are refused: InvalidClientTokenId: No."]),
        (error("SignatureDoesNotMatch", status=403, text="Signature expired: 1 is now earlier"), ["earlier"]),
        (error("ExpiredToken", status=403), ["the credentials are refused: ExpiredToken"]),
        (error("UnrecognizedClientException"), ["the credentials are refused"]),
        (error("UnsupportedOperation"), ["answered with 400 UnsupportedOperation: No."]),
        (Reply(body=b"<html>Not here", status=404), ["answered with 404"]),
    ],
)
def test_an_error_that_lasts_is_told_in_plain_words(server, adapter, reply, reasons):
    server.replies.append(reply)
    with pytest.raises(BrokerRefused) as refused:
        adapter.inspect()
    for reason in (*reasons, server.queue_url):
        assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (error("RequestThrottled", status=403), "is throttled: No."),
        (error("ThrottlingException"), "is throttled: No."),
        (error("InternalError", status=500), "answered with 500 InternalError: No."),
        (Reply(body=b"", status=503), "answered with 503"),
        (Reply(status=429, body=b"slowly"), "is throttled"),
        (Reply(cut=0), "ConnectionClosedError"),
        (Reply(body=b"<html>Welcome"), "told no attribute of"),
        (Reply(hang=True), "ReadTimeoutError"),
    ],
)
def test_an_error_that_may_pass_is_told_apart(server, options, make_publisher, reply, reason):
    server.replies.append(reply)
    with pytest.raises(BrokerUnavailable, match=reason):
        make_publisher(replace(options, operation_timeout_seconds=0.2)).inspect()


def test_a_broker_that_is_not_there_may_come(options, make_publisher):
    with pytest.raises(BrokerUnavailable, match="Could not connect to the endpoint URL"):
        make_publisher(replace(options, endpoint_url="http://127.0.0.1:1")).inspect()


def test_missing_credentials_are_told(options, make_publisher, monkeypatch):
    anonymous = replace(options, local_credentials=False)
    with pytest.raises(BrokerRefused, match=r"Unable to locate credentials.*Give boto3 credentials"):
        make_publisher(anonymous).inspect()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "half")
    with pytest.raises(InvalidInput, match=r"boto3 cannot be set up for .*Partial credentials found"):
        make_publisher(anonymous)
