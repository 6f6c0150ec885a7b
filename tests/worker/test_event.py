"""The invocation event: its bytes, and their strict reading."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from cloudevents.core.v1.event import CloudEvent

from ledgence_worker.errors import InvalidInput
from ledgence_worker.event import event_bytes, parse_event
from ledgence_worker.limits import DATA_BYTES, JSON_DEPTH
from ledgence_worker.protocol import Assignment

TASK = UUID("0190a5c8-1111-7abc-8def-0123456789ab")
ASSIGNMENT = Assignment(
    task_id=TASK,
    number=2,
    token=UUID(int=1),
    cause="retry",
    tenant="acme",
    namespace="default",
    queue="main",
    program="inspect-file",
    version="1",
    data='{"x": 1.0, "nul": "\\u0000"}',
    claimed_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    remaining_seconds=60.0,
    timeout_seconds=None,
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
)
EXPECTED = (
    '{"specversion":"1.0","id":"0190a5c8-1111-7abc-8def-0123456789ab.2","source":"urn:ledgence:acme:default",'
    '"type":"com.ledgence.task.invocation.requested.v1","ldgtenantid":"acme","ldgnamespace":"default",'
    '"subject":"tasks/0190a5c8-1111-7abc-8def-0123456789ab","time":"2026-01-02T03:04:05.000000Z",'
    '"datacontenttype":"application/json","ldgtaskid":"0190a5c8-1111-7abc-8def-0123456789ab","ldgattemptno":2,'
    '"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",'
    '"data":{"x": 1.0, "nul": "\\u0000"}}'
)


def test_the_bytes_are_fixed() -> None:
    assert event_bytes(ASSIGNMENT).decode() == EXPECTED


def test_the_same_attempt_gives_the_same_bytes_whatever_changed_around_it() -> None:
    elsewhere = timezone(timedelta(hours=5))
    same = replace(
        ASSIGNMENT, token=UUID(int=9), remaining_seconds=1.0, claimed_at=ASSIGNMENT.claimed_at.astimezone(elsewhere)
    )
    assert event_bytes(same) == event_bytes(ASSIGNMENT)
    assert event_bytes(replace(ASSIGNMENT, number=3)) != event_bytes(ASSIGNMENT)


def test_a_program_gets_a_cloudevent() -> None:
    event = parse_event(event_bytes(ASSIGNMENT))
    assert isinstance(event, CloudEvent)
    assert event.get_id() == f"{TASK}.2"
    assert event.get_subject() == f"tasks/{TASK}"
    assert event.get_time() == ASSIGNMENT.claimed_at
    assert event.get_extension("ldgattemptno") == 2
    assert event.get_data() == {"x": 1.0, "nul": "\0"}


@pytest.mark.parametrize("data", ["null", "0", '""', "[]", "false"])
def test_any_data_are_kept(data: str) -> None:
    body = event_bytes(replace(ASSIGNMENT, data=data))
    assert body.endswith(f'"data":{data}}}'.encode())
    assert parse_event(body).get_data() == json.loads(data)


def test_the_largest_and_deepest_data_pass() -> None:
    large = json.dumps("x" * (DATA_BYTES - 2))
    assert parse_event(event_bytes(replace(ASSIGNMENT, data=large))).get_data() == json.loads(large)
    deep = "[" * JSON_DEPTH + "]" * JSON_DEPTH
    parse_event(event_bytes(replace(ASSIGNMENT, data=deep)))
    with pytest.raises(InvalidInput, match="too deep"):
        parse_event(event_bytes(replace(ASSIGNMENT, data=f"[{deep}]")))


def test_the_source_is_a_uri_whatever_the_names() -> None:
    event = parse_event(event_bytes(replace(ASSIGNMENT, tenant='a:b "ü"', namespace="n/%")))
    assert event.get_source() == "urn:ledgence:a%3Ab%20%22%C3%BC%22:n%2F%25"
    assert event.get_extension("ldgtenantid") == 'a:b "ü"'


def test_a_claim_time_without_offset_is_refused() -> None:
    with pytest.raises(InvalidInput, match="offset"):
        event_bytes(replace(ASSIGNMENT, claimed_at=datetime(2026, 1, 1)))


def members(**changes: Any) -> bytes:
    event = json.loads(EXPECTED) | changes
    return json.dumps({name: value for name, value in event.items() if value is not ...}).encode()


@pytest.mark.parametrize("name", [name for name in json.loads(EXPECTED) if name != "traceparent"])
def test_a_missing_attribute_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        parse_event(members(**{name: ...}))


@pytest.mark.parametrize(
    "changes",
    [
        {"unknown": "x"},
        {"dataschema": "urn:x"},
        {"data_base64": "eA=="},
        {"specversion": "0.3"},
        {"type": "other"},
        {"datacontenttype": "text/plain"},
        {"id": f"{TASK}.1"},
        {"subject": "tasks/other"},
        {"ldgattemptno": "2"},
        {"ldgattemptno": True},
        {"ldgattemptno": 0},
        {"time": "yesterday"},
        {"time": "2026-01-02T03:04:05"},
        {"time": None},
        {"source": 1},
        {"traceparent": 1},
    ],
    ids=str,
)
def test_a_wrong_attribute_is_refused(changes: dict[str, Any]) -> None:
    parse_event(members())
    with pytest.raises(InvalidInput):
        parse_event(members(**changes))


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b"{", EXPECTED.encode()[:-1] + b',"id":"x"}', EXPECTED.encode() + b"}", b"\xff"],
)
def test_what_is_no_event_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        parse_event(body)


def test_data_cannot_smuggle_attributes() -> None:
    for data in ('1,"id":"x"', '1,"ldgattemptno":9', "1}{", '1,"other":1'):
        with pytest.raises(InvalidInput):
            parse_event(event_bytes(replace(ASSIGNMENT, data=data)))
