"""The invocation event: the CloudEvent bytes that an attempt gets, and their strict reading in its process."""

from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any, Final
from urllib.parse import quote

from cloudevents.core.v1.event import CloudEvent

from ledgence_worker.errors import InvalidInput
from ledgence_worker.limits import DATA_BYTES, JSON_DEPTH
from ledgence_worker.protocol import Assignment
from ledgence_worker.strict_json import loads

TYPE: Final = "com.ledgence.task.invocation.requested.v1"
EVENT_BYTES: Final = DATA_BYTES + 8 * 1024

_REQUIRED: Final = {
    "specversion": str,
    "id": str,
    "source": str,
    "type": str,
    "subject": str,
    "time": str,
    "datacontenttype": str,
    "ldgtenantid": str,
    "ldgnamespace": str,
    "ldgtaskid": str,
    "ldgattemptno": int,
}
_FIXED: Final = {"specversion": "1.0", "type": TYPE, "datacontenttype": "application/json"}
_OPTIONAL: Final = {"traceparent"}


def event_bytes(assignment: Assignment) -> bytes:
    """Return the attempt's CloudEvent 1.0 in JSON: the same attempt always gives the same bytes.

    The application's data is spliced in as the text that it is, null included; the reader judges it. Raises
    InvalidInput for a claim time without an offset.
    """
    task = assignment.task_id
    traceparent = assignment.traceparent
    trace = "" if traceparent is None else f'"traceparent":{encode_basestring_ascii(traceparent)},'
    return (
        f'{{"specversion":"1.0","id":"{task}.{assignment.number}",'
        f"{_scope(assignment.tenant, assignment.namespace)},"
        f'"subject":"tasks/{task}","time":"{_time(assignment.claimed_at)}","datacontenttype":"application/json",'
        f'"ldgtaskid":"{task}","ldgattemptno":{assignment.number},{trace}"data":{assignment.data}}}'
    ).encode(errors="surrogatepass")


def parse_event(body: bytes) -> CloudEvent:
    """Read an invocation event strictly and return it as the object that programs get.

    Raises InvalidInput when it is not strict JSON, or an attribute is missing, unknown, doubled or malformed.
    """
    members = loads(body, what="The event", limit=EVENT_BYTES, depth=JSON_DEPTH + 1)
    if not isinstance(members, dict) or "data" not in members:
        raise InvalidInput("The event is not an object with data.")
    data = members.pop("data")
    for name, kind in _REQUIRED.items():
        if type(members.get(name)) is not kind:
            raise InvalidInput(f"The event's attribute {name} is missing or not of type {kind.__name__}.")
    for name, value in _FIXED.items():
        if members[name] != value:
            raise InvalidInput(f"The event's attribute {name} is not {value!r}.")
    unknown = members.keys() - _REQUIRED.keys() - _OPTIONAL
    if unknown:
        raise InvalidInput(f"The event has unknown attributes: {', '.join(sorted(unknown))[:200]}.")
    _check_identity(members)
    return CloudEvent(attributes=members, data=data)


# Any: the values were checked against _REQUIRED just before.
def _check_identity(members: dict[str, Any]) -> None:
    task, number = members["ldgtaskid"], members["ldgattemptno"]
    if number < 1 or members["id"] != f"{task}.{number}" or members["subject"] != f"tasks/{task}":
        raise InvalidInput("The event's id and subject do not name its task and attempt.")
    if not isinstance(members.get("traceparent", ""), str):
        raise InvalidInput("The event's attribute traceparent is not of type str.")
    try:
        members["time"] = datetime.fromisoformat(members["time"])
    except ValueError:
        raise InvalidInput("The event's attribute time is not RFC 3339.") from None
    if members["time"].tzinfo is None:
        raise InvalidInput("The event's attribute time has no offset.")


@lru_cache(maxsize=256)
def _scope(tenant: str, namespace: str) -> str:
    source = f"urn:ledgence:{quote(tenant, safe='')}:{quote(namespace, safe='')}"
    return (
        f'"source":{encode_basestring_ascii(source)},"type":"{TYPE}",'
        f'"ldgtenantid":{encode_basestring_ascii(tenant)},"ldgnamespace":{encode_basestring_ascii(namespace)}'
    )


def _time(claimed_at: datetime) -> str:
    if claimed_at.tzinfo is None:
        raise InvalidInput("The claim time has no offset.")
    return claimed_at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
