"""What became of each publication is told truly, whatever the broker answers."""

import ssl
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from ledgence_worker.delivery.ports import Publication, Published, PublishStatus
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable, InvalidInput
from tests.worker.delivery.sqs.server import Reply, error, serve, told

#: A key and a certificate for 127.0.0.1, made for tests alone.
PEM = Path(__file__).parents[3] / "client" / "loopback.pem"

CONFIRMED, REFUSED = PublishStatus.CONFIRMED, PublishStatus.REFUSED
FAILED, UNCERTAIN = PublishStatus.FAILED, PublishStatus.UNCERTAIN


def batch(*bodies):
    return [Publication(publication_id=UUID(int=n), body=body) for n, body in enumerate(bodies)]


def done(*ids):
    return [{"Id": str(n), "MessageId": f"m{n}", "MD5OfMessageBody": "x"} for n in ids]


def failed(n, code, **more):
    return {"Id": str(n), "Code": code, "Message": "No.", "SenderFault": False} | more


def statuses(published):
    return {one.publication_id.int: one.status for one in published}


def test_what_is_sent_is_named_by_its_place_and_matched_in_any_order(server, publisher):
    server.replies.append(told(Successful=done(2, 0, 1)))
    assert publisher.publish(batch("a", "é\t\n\r", "\U0010ffff")) == [
        Published(publication_id=UUID(int=n), status=CONFIRMED, message_id=f"m{n}") for n in range(3)
    ]
    assert server.actions == ["SendMessageBatch"]
    assert server.requests[0].body == {
        "QueueUrl": server.queue_url,
        "Entries": [
            {"Id": "0", "MessageBody": "a"},
            {"Id": "1", "MessageBody": "é\t\n\r"},
            {"Id": "2", "MessageBody": "\U0010ffff"},
        ],
    }


def test_entries_fail_each_by_itself(server, publisher):
    codes = [
        failed(1, "InvalidMessageContents", SenderFault=True),
        failed(2, "RequestThrottled", SenderFault=True),
        failed(3, "AWS.SimpleQueueService.ThrottlingException", SenderFault=True),
        failed(4, "InternalError"),
        failed(5, "KmsDisabled", SenderFault=True),
        failed(6, "AccessDenied", SenderFault=True),
        {"Id": "7"},
    ]
    server.replies.append(told(Successful=done(0), Failed=codes))
    published = publisher.publish(batch(*"abcdefghi"))
    assert statuses(published) == {
        0: CONFIRMED,
        1: REFUSED,
        8: UNCERTAIN,
    } | dict.fromkeys(range(2, 8), FAILED)
    assert [one.detail for one in published][1] == "InvalidMessageContents: No."


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"Successful": None, "Failed": None},
        {"Successful": [{"Id": "0"}, {"Id": "1", "MessageId": ""}]},
        {"Successful": [{"Id": "0", "MessageId": 5}, {"Id": "1", "MessageId": None}]},
        {"Successful": done(0, 1, 2)},
        {"Successful": done(0, 1, 1)},
        {"Successful": done(0, 1), "Failed": [failed(0, "InternalError")]},
        {"Successful": [{"MessageId": "m"}, *done(0, 1)]},
        {"Successful": [*done(1), {"Id": 0, "MessageId": "m"}]},
        {"Successful": [*done(1), {"Id": [], "MessageId": "m"}]},
    ],
)
def test_an_answer_that_does_not_match_confirms_nothing(server, publisher, reply):
    server.replies.append(told(**reply))
    assert statuses(publisher.publish(batch("a", "b"))) == {0: UNCERTAIN, 1: UNCERTAIN}


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b'{"Successful": [{"Id"', b"[]", b"5", b'"x"', b"null", b'{"Successful": 5}', b'{"Failed": [5]}'],
)
def test_a_garbled_answer_is_uncertain(server, publisher, body):
    server.replies.append(Reply(body=body))
    assert statuses(publisher.publish(batch("a", "b"))) == {0: UNCERTAIN, 1: UNCERTAIN}


@pytest.mark.parametrize(
    ("reply", "detail"),
    [
        (Reply(hang=True), "ReadTimeoutError"),
        (Reply(cut=0), "ConnectionClosedError"),
        (Reply(body=b'{"Successful": []}', cut=5), "says nothing of it"),
        (Reply(status=500, body=b""), "answered with 500"),
        (error("InternalError", status=503), "answered with 503 InternalError: No."),
    ],
)
def test_without_an_answer_it_is_uncertain_and_sent_once(server, options, make_publisher, reply, detail):
    server.replies.append(reply)
    published = make_publisher(replace(options, operation_timeout_seconds=0.2)).publish(batch("a", "b"))
    assert statuses(published) == {0: UNCERTAIN, 1: UNCERTAIN}
    assert all(detail in one.detail for one in published)
    assert server.actions == ["SendMessageBatch"]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (error("RequestThrottled", status=403), "SendMessage on .* is throttled: No."),
        (error("ThrottlingException", status=503), "is throttled"),
        (error("QueueDoesNotExist"), "There is no queue"),
        (error("AccessDenied", status=403), "may not do sqs:SendMessage on"),
        (error("KmsAccessDenied"), "may not do sqs:SendMessage on"),
        (error("KmsThrottled"), "is throttled"),
        (error("ExpiredToken", status=403), "credentials are refused"),
        (error("UnsupportedOperation"), "answered with 400 UnsupportedOperation"),
        (Reply(status=301, body=b""), "answered with 301"),
    ],
)
def test_a_call_that_did_nothing_says_so(server, publisher, reply, reason):
    server.replies.append(reply)
    with pytest.raises(BrokerUnavailable, match=reason):
        publisher.publish(batch("a", "b"))
    assert server.actions == ["SendMessageBatch"]


def test_a_broker_that_is_not_there_got_nothing(options, make_publisher):
    with pytest.raises(BrokerUnavailable, match="Could not connect"):
        make_publisher(replace(options, endpoint_url="http://127.0.0.1:1")).publish(batch("a"))


def test_a_queue_without_credentials_got_nothing(options, make_publisher):
    with pytest.raises(BrokerUnavailable, match="Unable to locate credentials"):
        make_publisher(replace(options, local_credentials=False)).publish(batch("a"))


def test_a_server_that_nobody_vouches_for_got_nothing(options, make_publisher):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    with serve(context) as secure:
        with pytest.raises(BrokerUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            make_publisher(replace(options, endpoint_url=secure.url)).publish(batch("a"))
        with pytest.raises(BrokerRefused, match="CERTIFICATE_VERIFY_FAILED"):
            make_publisher(replace(options, endpoint_url=secure.url)).inspect()
        assert secure.requests == []


@pytest.mark.parametrize("body", ["", "\0", "a\x0b", "\x7f\x80\ufffe", "\ud800", "x" * 16384, "é" * 8192])
def test_a_body_that_no_queue_takes_is_refused_alone(server, publisher, body):
    server.replies.append(told(Successful=done(0, 1)))
    published = publisher.publish(batch("a", body, "x" * 16383))
    assert statuses(published) == {0: CONFIRMED, 1: REFUSED, 2: CONFIRMED}
    assert len(server.requests[0].body["Entries"]) == 2
    assert statuses(publisher.publish(batch(body))) == {0: REFUSED}
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "whole", ["InvalidMessageContents", "InvalidParameterValue", "InvalidAttributeValue", "BatchRequestTooLong"]
)
def test_a_call_that_is_refused_for_one_entry_is_taken_apart(server, publisher, whole):
    no = error(whole)
    server.replies.extend([no, told(Successful=done(0)), no, told(Failed=[failed(0, "Busy")])])
    assert statuses(publisher.publish(batch(*"abcd"))) == {0: CONFIRMED, 1: REFUSED, 2: FAILED, 3: FAILED}
    assert [len(request.body["Entries"]) for request in server.requests] == [4, 1, 1, 1]


@pytest.mark.parametrize(
    ("then", "status"), [(error("RequestThrottled", status=403), FAILED), (Reply(cut=0), UNCERTAIN)]
)
def test_a_call_taken_apart_ends_when_the_broker_fails(server, publisher, then, status):
    server.replies.extend([error("InvalidMessageContents"), told(Successful=done(0)), then])
    assert statuses(publisher.publish(batch(*"abcd"))) == {0: CONFIRMED, 1: status, 2: FAILED, 3: FAILED}
    assert len(server.requests) == 3


def test_more_than_a_call_takes_is_refused(server, publisher):
    with pytest.raises(InvalidInput, match="10 entries at most, not 11"):
        publisher.publish(batch(*"abcdefghijk"))
    assert list(publisher.publish([])) == []
    assert server.requests == []


def test_what_a_broker_says_is_told_as_one_short_line(server, publisher):
    server.replies.append(told(Failed=[failed(0, "Bad", Message="a\nb\0" + "c" * 1000)]))
    [published] = publisher.publish(batch("a"))
    assert published.detail == "Bad: a b " + "c" * 291


def test_a_connection_is_used_again_and_given_back(server, options, make_publisher):
    publisher = make_publisher(options)
    for _ in range(3):
        server.replies.append(told(Successful=done(0)))
        publisher.publish(batch("a"))
    assert server.connections == 1
    publisher.close()
    server.replies.append(told(Successful=done(0)))
    publisher.publish(batch("a"))
    assert server.connections == 2
