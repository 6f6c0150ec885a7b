"""What the types of the bodies do not say about their values, and the service checks all the same."""

from typing import Any, Final

from ledgence.http.limits import BATCH_MAX, BIGINT_MAX, ENTRY_POINT_MAX, INT_MAX, NAMES_MAX, TASKS_MAX
from ledgence.models import Attempt, QuarantinedMessage, State
from ledgence.operations.channels import CHANNEL_MAX
from ledgence_worker import limits
from ledgence_worker.programs import ATTEMPTS_MAX, BACKOFF_SECONDS_MAX

type Schema = dict[str, Any]

# The formats of the API's own say what no pattern does.
IDENTIFIER: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": limits.IDENTIFIER_BYTES,
    "format": "ledgence-identifier",
    "description": "1 to 128 bytes of printable text without blanks at its ends.",
}
KEY: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": limits.KEY_BYTES,
    "format": "ledgence-key",
    "description": "1 to 255 bytes of printable text.",
}
ENTRY_POINT: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": ENTRY_POINT_MAX,
    "format": "ledgence-entry-point",
    "description": "Printable text: module:qualified.name.",
}
MESSAGE_ID: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": limits.MESSAGE_ID_CHARACTERS,
    "format": "ledgence-message-id",
    "description": "The broker's: 1 to 255 characters of printable text.",
}
TIME: Final[Schema] = {"type": "string", "format": "date-time", "description": "With an offset."}
RETRY_WORD: Final[Schema] = {
    "type": "string",
    "format": "ledgence-retry-word",
    "description": "failed, timed_out, crashed, lost, or the dotted name of an exception class.",
}
JSON_TEXT: Final[Schema] = {"type": "string", "contentMediaType": "application/json", "format": "ledgence-json"}


def _range(low: float, high: float, kind: str = "integer") -> Schema:
    return {"type": kind, "minimum": low, "maximum": high}


def _seconds(low: float, high: float = BACKOFF_SECONDS_MAX) -> Schema:
    return _range(low, high, "number")


def _optional(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _array(items: Schema, most: int) -> Schema:
    return {"type": "array", "items": items, "maxItems": most}


def _count(most: int, least: int = 0) -> Schema:
    return {"minItems": least, "maxItems": most}


ATTEMPT_NUMBER: Final = _range(1, INT_MAX)
CHANNEL: Final = _range(0, CHANNEL_MAX)
SEQUENCE: Final = _range(1, BIGINT_MAX)
STATE: Final[Schema] = {"enum": State.values}

#: In place of what a field's type says alone.
VALUES: Final[dict[tuple[str, str], Schema]] = {
    ("NewTaskBody", "program"): IDENTIFIER,
    ("NewTaskBody", "version"): IDENTIFIER,
    ("NewTaskBody", "queue"): _optional(IDENTIFIER),
    ("NewTaskBody", "idempotency_key"): _optional(KEY),
    ("NewTaskBody", "correlation_key"): _optional(KEY),
    ("NewTaskBody", "priority"): _range(limits.PRIORITY_MIN, limits.PRIORITY_MAX),
    ("NewTaskBody", "run_after"): _optional(TIME),
    ("NewTaskBody", "max_attempts"): _range(1, ATTEMPTS_MAX),
    ("NewTaskBody", "timeout"): _optional(_seconds(0.001)),
    ("NewTaskBody", "retry_on"): {"type": "array", "items": RETRY_WORD},
    ("NewTaskBody", "traceparent"): _optional({"type": "string", "pattern": "^[!-~]{1,55}$"}),
    ("Backoff", "initial_seconds"): _seconds(0),
    ("Backoff", "factor"): _range(1, 10, "number"),
    ("Backoff", "maximum_seconds"): _seconds(0) | {"description": "Not less than initial_seconds."},
    ("Backoff", "jitter"): _range(0, 1, "number"),
    ("RequeueBody", "revision"): _range(0, INT_MAX),
    ("RequeueBody", "reason"): {"type": "string", "minLength": 1, "format": "ledgence-reason"},
    ("NewSessionBody", "name"): IDENTIFIER,
    ("NewSessionBody", "host"): IDENTIFIER,
    ("NewSessionBody", "version"): IDENTIFIER,
    ("NewSessionBody", "pid"): _range(0, INT_MAX),
    ("NewSessionBody", "concurrency"): _range(1, limits.CONCURRENCY_MAX),
    ("NewSessionBody", "queues"): _array(IDENTIFIER, NAMES_MAX),
    ("NewSessionBody", "exclude_queues"): _array(IDENTIFIER, NAMES_MAX),
    ("CatalogueEntry", "name"): IDENTIFIER,
    ("CatalogueEntry", "version"): IDENTIFIER,
    ("CatalogueEntry", "entry_point"): ENTRY_POINT,
    ("AcquireBody", "channel"): CHANNEL,
    ("AcquireBody", "sequence"): SEQUENCE,
    ("AcquireBody", "capacity"): _range(0, limits.CONCURRENCY_MAX),
    ("AcquireBody", "wait_seconds"): _seconds(0, limits.WAIT_SECONDS_MAX),
    ("ClaimBody", "channel"): CHANNEL,
    ("ClaimBody", "sequence"): SEQUENCE,
    ("Dispatch", "generation"): ATTEMPT_NUMBER,
    ("ClaimAnswer", "generation"): ATTEMPT_NUMBER,
    ("RefusedMessage", "message_id"): MESSAGE_ID,
    ("RefusedMessage", "reason"): {"enum": QuarantinedMessage.Reason.values},
    ("Owner", "number"): ATTEMPT_NUMBER,
    ("Settlement", "number"): ATTEMPT_NUMBER,
    ("Settlement", "result"): _optional(JSON_TEXT),
    ("TaskStatus", "state"): STATE,
    ("TaskResult", "state"): STATE,
    ("AttemptStatus", "outcome"): {"enum": [*Attempt.Outcome.values, None]},
    ("CancelAnswer", "status"): {"enum": ["cancelled", "requested", "terminal"]},
    ("RequeueAnswer", "status"): {"enum": ["requeued", "moved_on", "not_terminal", "succeeded"]},
    ("Health", "status"): {"enum": ["live", "ready", "not ready"]},
}
#: How many items an array of other types may have.
COUNTS: Final[dict[tuple[str, str], Schema]] = {
    ("NewTasksBody", "tasks"): _count(TASKS_MAX),
    ("NewSessionBody", "catalogue"): _count(NAMES_MAX),
    ("AcquireBody", "settlements"): _count(BATCH_MAX),
    ("ClaimBody", "dispatches"): _count(limits.MESSAGES_MAX, 1) | {"uniqueItems": True},
    ("QuarantineBody", "messages"): _count(limits.MESSAGES_MAX, 1),
    ("SettlementsBody", "settlements"): _count(BATCH_MAX),
    ("OwnersBody", "owners"): _count(BATCH_MAX),
}
#: What holds between the fields of one type.
RULES: Final[dict[str, Schema]] = {
    "Settlement": {
        "if": {"properties": {"outcome": {"const": "succeeded"}}},
        "then": {"required": ["result"], "properties": {"result": {"type": "string"}}},
        "else": {"properties": {"result": {"type": "null"}}},
    },
}
