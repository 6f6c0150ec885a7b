"""The table of bad requests: each is refused with its problem by every server, and changes nothing."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ledgence.models import Role
from ledgence_worker.limits import COMMAND_BYTES, SUBMIT_BYTES
from tests.http.requests import DOCUMENTS, acquisition, claim, dispatch, refused_message
from tests.http.scene import (
    Scene,
    make_expired_token,
    make_revoked_token,
    make_token,
    new_session,
    new_task,
    owner,
    settlement,
    unknown,
)

JSON = {"content-type": "application/json"}
TASK = b'{"program": "tests.work", "version": "1", "data": %s}'

INVALID = (400, "invalid_input")
NO_TOKEN = (401, "unauthenticated")
FORBIDDEN = (403, "forbidden")
NOT_FOUND = (404, "not_found")
NO_METHOD = (405, "invalid_input")
TOO_LARGE = (413, "invalid_input")
WRONG_TYPE = (415, "invalid_input")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """A bad request, and the problem that it is answered with."""

    problem: tuple[int, str]
    method: str = "POST"
    #: Below the prefix; in braces what the scene has by that name.
    path: str = "tasks"
    #: The body: JSON of a value, or bytes as they are.
    body: bytes | Callable[[Scene], Any] | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    query: str = ""
    token: Callable[[Scene], str | None] = lambda scene: scene.token

    def content(self, scene: Scene) -> bytes | None:
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        return json.dumps(self.body(scene)).encode()


def task(data: bytes, *, problem: tuple[int, str] = INVALID, **options: Any) -> Bad:
    """Return a submission with this text as its data."""
    return Bad(problem=problem, body=TASK % data, **options)


def get(path: str, query: str = "", *, problem: tuple[int, str] = INVALID, **options: Any) -> Bad:
    return Bad(problem=problem, method="GET", path=path, query=query, headers={}, **options)


def with_token(token: Callable[[Scene], str | None], problem: tuple[int, str], path: str = "tasks/{queued}") -> Bad:
    return get(path, problem=problem, token=token)


def acquire(problem: tuple[int, str] = INVALID, path: str = "sessions/{session}/acquire", **members: Any) -> Bad:
    return Bad(problem=problem, path=path, body=lambda scene: acquisition(scene, **members))


def claims(
    *dispatches: Any,
    problem: tuple[int, str] = INVALID,
    path: str = "sessions/{session}/dispatch/claim",
    token: Callable[[Scene], str | None] = lambda scene: scene.token,
    **members: Any,
) -> Bad:
    """Return a claim of dispatches; without any, of the queued task."""
    return Bad(
        problem=problem,
        path=path,
        body=lambda scene: claim(*(dispatches or [dispatch(scene.queued)]), **members),
        token=token,
    )


def quarantine(
    *messages: Any,
    problem: tuple[int, str] = INVALID,
    path: str = "sessions/{session}/dispatch/quarantine",
    token: Callable[[Scene], str | None] = lambda scene: scene.token,
    queue: str = "work",
) -> Bad:
    """Return the record of refused messages; without any, of a valid one."""
    body = {"queue": queue, "messages": list(messages or [refused_message()])}
    return Bad(problem=problem, path=path, body=lambda scene: body, token=token)


def open_session(**members: Any) -> Bad:
    path = "sessions/01a2295b-6675-71a8-b1ad-bc9e0a4dd915"
    return Bad(problem=INVALID, method="PUT", path=path, body=lambda scene: new_session(**members))


BODIES = {
    "no body": Bad(problem=INVALID, body=b""),
    "blank": Bad(problem=INVALID, body=b"  "),
    "not JSON": Bad(problem=INVALID, body=b"{"),
    "two documents": Bad(problem=INVALID, body=b"{}{}"),
    "not UTF-8": task(b'"\xff"'),
    "UTF-16": Bad(problem=INVALID, body="{}".encode("utf-16")),
    "byte order mark": Bad(problem=INVALID, body=b"\xef\xbb\xbf{}"),
    "an array": Bad(problem=INVALID, body=b"[]"),
    "null": Bad(problem=INVALID, body=b"null"),
    "unknown member": Bad(problem=INVALID, body=lambda scene: new_task(tenant="other")),
    "missing member": Bad(problem=INVALID, body=b'{"program": "tests.work"}'),
    "NaN": task(b"NaN"),
    "Infinity": task(b"[-Infinity]"),
    "number beyond a double": task(b"1e999"),
    "huge integer as data": task(b"9" * 10_000),
    "huge integer as priority": Bad(
        problem=INVALID, body=b'{"program": "p", "version": "1", "priority": %s}' % (b"9" * 10_000)
    ),
    "integer of 4,000 digits as priority": Bad(
        problem=INVALID, body=b'{"program": "p", "version": "1", "priority": %s}' % (b"9" * 4_000)
    ),
    "key twice": Bad(problem=INVALID, body=b'{"program": "a", "program": "b", "version": "1"}'),
    "key twice, once in escapes": Bad(problem=INVALID, body=b'{"program": "a", "\\u0070rogram": "b", "version": "1"}'),
    "key twice in data": task(b'{"a": 1, "\\u0061": 2}'),
    "one of very many keys twice": task(b'{%s, "k0": 1}' % b", ".join(b'"k%d": 0' % n for n in range(100_000))),
    "100,000 deep": task(b"[" * 100_000 + b"]" * 100_000),
    "100,000 deep without end": task(b'{"a":' * 100_000),
    "65 deep": task(b"[" * 65 + b"]" * 65),
    "lone surrogate": task(b'"\\ud800"'),
    "lone surrogate as a key": task(b'{"\\udfff": 1}'),
    "raw surrogate": task(b'"\xed\xa0\x80"'),
    "raw NUL": task(b'"\0"'),
    "data above 1 MiB": task(b'"%s"' % (b"a" * 1024 * 1024)),
    "5 MiB": task(b'"%s"' % (b"a" * 5 * 1024 * 1024), problem=TOO_LARGE),
    "a byte above 4 MiB": Bad(problem=TOO_LARGE, body=b" " * (SUBMIT_BYTES + 1)),
    "a byte above 1 MiB": Bad(problem=TOO_LARGE, path="sessions/{session}/renew", body=b" " * (COMMAND_BYTES + 1)),
    "a body where none is taken": Bad(problem=INVALID, path="tasks/{queued}/cancel", body=b"{}"),
    "a body of GET": Bad(problem=INVALID, method="GET", body=b"{}"),
    "1,001 tasks": Bad(problem=INVALID, path="tasks/batch", body=lambda scene: {"tasks": [new_task()] * 1001}),
    "one bad task of two": Bad(
        problem=INVALID, path="tasks/batch", body=lambda scene: {"tasks": [new_task(), new_task(priority=101)]}
    ),
    "form": Bad(problem=WRONG_TYPE, body=b"a=b", headers={"content-type": "application/x-www-form-urlencoded"}),
    "multipart": Bad(problem=WRONG_TYPE, body=b"--x", headers={"content-type": "multipart/form-data; boundary=x"}),
    "JSON in name alone": Bad(problem=WRONG_TYPE, body=b"{}", headers={"content-type": "text/json"}),
    "no content type": Bad(problem=WRONG_TYPE, body=b"{}", headers={}),
    "gzip": Bad(problem=WRONG_TYPE, body=b"\x1f\x8b", headers=JSON | {"content-encoding": "gzip"}),
    "identity and gzip": Bad(problem=WRONG_TYPE, body=b"{}", headers=JSON | {"content-encoding": "identity, gzip"}),
}

VALUES = {
    "run_after without offset": Bad(problem=INVALID, body=lambda scene: new_task(run_after="2030-01-01T00:00:00")),
    "run_after in year 10000": Bad(problem=INVALID, body=lambda scene: new_task(run_after="9999-12-31T23:59:59-14:00")),
    "run_after as a number": Bad(problem=INVALID, body=lambda scene: new_task(run_after=0)),
    "priority 101": Bad(problem=INVALID, body=lambda scene: new_task(priority=101)),
    "priority true": Bad(problem=INVALID, body=lambda scene: new_task(priority=True)),
    "priority 1.0": Bad(problem=INVALID, body=lambda scene: new_task(priority=1.0)),
    "timeout 0": Bad(problem=INVALID, body=lambda scene: new_task(timeout=0)),
    "max_attempts 0": Bad(problem=INVALID, body=lambda scene: new_task(max_attempts=0)),
    "backoff that shrinks": Bad(problem=INVALID, body=lambda scene: new_task(backoff={"factor": 0.5})),
    "retry of nothing": Bad(problem=INVALID, body=lambda scene: new_task(retry_on=["succeeded"])),
    "program of blanks": Bad(problem=INVALID, body=lambda scene: new_task(program=" ")),
    "program above 128 bytes": Bad(problem=INVALID, body=lambda scene: new_task(program="ä" * 65)),
    "key above 255 bytes": Bad(problem=INVALID, body=lambda scene: new_task(idempotency_key="k" * 256)),
    "empty key": Bad(problem=INVALID, body=lambda scene: new_task(correlation_key="")),
    "requeue without reason": Bad(
        problem=INVALID,
        path="tasks/{cancelled}/requeue",
        body=lambda scene: DOCUMENTS["requeue"](scene) | {"reason": " "},
    ),
    "requeue at a huge revision": Bad(
        problem=INVALID,
        path="tasks/{cancelled}/requeue",
        body=lambda scene: DOCUMENTS["requeue"](scene) | {"revision": 2**31},
    ),
    "session of no concurrency": open_session(concurrency=0),
    "session of a negative pid": open_session(pid=-1),
    "session with a nameless program": open_session(catalogue=[{"name": "", "version": "1", "entry_point": "m:f"}]),
    "session with a NUL in an entry point": open_session(
        catalogue=[{"name": "p", "version": "1", "entry_point": "m:\0"}]
    ),
    "session with a huge entry point": open_session(
        catalogue=[{"name": "p", "version": "1", "entry_point": "m" * 513}]
    ),
    "session with a huge queue": open_session(queues=["q" * 129]),
    "session with 10,001 queues": open_session(queues=["q"] * 10_001),
    "channel -1": acquire(channel=-1),
    "channel 32768": acquire(channel=32_768),
    "sequence 0": acquire(sequence=0),
    "sequence 2^63": acquire(sequence=2**63),
    "capacity -1": acquire(capacity=-1),
    "capacity 1025": acquire(capacity=1025),
    "capacity -1 with a wait": acquire(capacity=-1, wait_seconds=20),
    "wait -1": acquire(wait_seconds=-1),
    "wait 21": acquire(wait_seconds=21),
    "wait of 10^400": acquire(wait_seconds=10**400),
    "sequence from the future": acquire((409, "out_of_order"), sequence=9),
    "sequence from the future with a wait": acquire((409, "out_of_order"), sequence=9, wait_seconds=20),
    "closed session": acquire((410, "session_expired"), "sessions/{closed_session}/acquire", sequence=1),
    "claim of nothing": claims(dispatches=[]),
    "claim of 33": claims(*(dispatch(UUID(int=n)) for n in range(33))),
    "claim of one twice": claims(*[dispatch(UUID(int=1))] * 2),
    "claim of generation 0": claims(dispatch(UUID(int=1), 0)),
    "claim of generation 2^31": claims(dispatch(UUID(int=1), 2**31)),
    "claim of no task": claims({"generation": 1}),
    "claim on channel -1": claims(channel=-1),
    "claim with sequence 0": claims(sequence=0),
    "claim from the future": claims(problem=(409, "out_of_order"), sequence=9),
    "claim of a closed session": claims(
        problem=(410, "session_expired"), path="sessions/{closed_session}/dispatch/claim"
    ),
    "quarantine of nothing": Bad(
        problem=INVALID,
        path="sessions/{session}/dispatch/quarantine",
        body=lambda scene: {"queue": "work", "messages": []},
    ),
    "quarantine of 33": quarantine(*(refused_message() for _ in range(33))),
    "quarantine without an id": quarantine(refused_message(message_id="")),
    "quarantine under a huge id": quarantine(refused_message(message_id="m" * 256)),
    "quarantine under an id with a line feed": quarantine(refused_message(message_id="m\n")),
    "quarantine for no reason": quarantine(refused_message(reason="boredom")),
    "quarantine of half a surrogate pair": quarantine(refused_message(body="\ud800")),
    "quarantine of a queue with a NUL": quarantine(queue="a\0"),
    "quarantine of a queue that is not there": quarantine(queue="nowhere", problem=NOT_FOUND),
    "attempt twice": Bad(
        problem=INVALID, path="sessions/{session}/renew", body=lambda scene: {"owners": [owner(scene.active)] * 2}
    ),
    "attempt of a huge number": Bad(
        problem=INVALID,
        path="sessions/{session}/renew",
        body=lambda scene: {"owners": [owner(scene.active) | {"number": 2**31}]},
    ),
    "2,049 owners": Bad(
        problem=INVALID,
        path="sessions/{session}/release",
        body=lambda scene: {"owners": [owner(scene.active) | {"number": n} for n in range(1, 2050)]},
    ),
    "success without result": Bad(
        problem=INVALID,
        path="sessions/{session}/settle",
        body=lambda scene: {"settlements": [settlement(scene.active, result=None)]},
    ),
    "failure with result": Bad(
        problem=INVALID,
        path="sessions/{session}/settle",
        body=lambda scene: {"settlements": [settlement(scene.active, outcome="failed")]},
    ),
    "result that is no JSON": Bad(
        problem=INVALID,
        path="sessions/{session}/settle",
        body=lambda scene: {"settlements": [settlement(scene.active, result="{'a': 1}")]},
    ),
    "result with a lone surrogate": Bad(
        problem=INVALID,
        path="sessions/{session}/settle",
        body=lambda scene: {"settlements": [settlement(scene.active, result='"\\ud800"')]},
    ),
    "outcome of nobody": Bad(
        problem=INVALID,
        path="sessions/{session}/settle",
        body=lambda scene: {"settlements": [settlement(scene.active, outcome="lucky")]},
    ),
}

ADDRESSES = {
    "no such address": get("nothing", problem=NOT_FOUND),
    "the root": get("", problem=NOT_FOUND),
    "braces": get("tasks/{{id}}", problem=NOT_FOUND),
    "slash at the end": get("tasks/", problem=NOT_FOUND),
    "two slashes": get("tasks//{queued}", problem=NOT_FOUND),
    "path traversal": get("tasks/../../../etc/passwd", problem=NOT_FOUND),
    "path traversal in escapes": get("tasks/%2e%2e%2f%2e%2e%2fetc%2fpasswd", problem=NOT_FOUND),
    "NUL in the path": get("tasks/%00", problem=NOT_FOUND),
    "line feed in the path": get("tasks/a%0ab", problem=NOT_FOUND),
    "bytes that are no UTF-8 in the path": get("tasks/%ff", problem=NOT_FOUND),
    "id in capitals": get("tasks/01A2295B-6675-71A8-B1AD-BC9E0A4DD915", problem=NOT_FOUND),
    "id in braces": get("tasks/{{01a2295b-6675-71a8-b1ad-bc9e0a4dd915}}", problem=NOT_FOUND),
    "id without hyphens": get("tasks/01a2295b667571a8b1adbc9e0a4dd915", problem=NOT_FOUND),
    "number for an id": get("tasks/1", problem=NOT_FOUND),
    "unknown task": get("tasks/01a2295b-6675-71a8-b1ad-bc9e0a4dd915", problem=NOT_FOUND),
    "DELETE": Bad(problem=NO_METHOD, method="DELETE", path="tasks/{queued}", headers={}),
    "PATCH": Bad(problem=NO_METHOD, method="PATCH", path="tasks/{queued}", headers={}),
    "OPTIONS": Bad(problem=NO_METHOD, method="OPTIONS", path="tasks", headers={}),
    "TRACE": Bad(problem=NO_METHOD, method="TRACE", path="tasks", headers={}),
    "unknown method": Bad(problem=NO_METHOD, method="BREW", path="tasks", headers={}),
    "GET where POST belongs": get("tasks/{queued}/cancel", problem=NO_METHOD),
}

QUERIES = {
    "unknown parameter": get("tasks", "tenant=other"),
    "parameter where none is taken": get("tasks/{queued}", "a=b"),
    "parameter of POST": Bad(problem=INVALID, path="tasks/{queued}/cancel", query="force=1", headers={}),
    "parameter twice": get("tasks", "state=queued&state=active"),
    "parameter without value": get("tasks", "state"),
    "empty parameter": get("tasks", "state="),
    "unknown state": get("tasks", "state=waiting"),
    "NUL": get("tasks", "program=a%00b"),
    "NUL in a queue": get("tasks", "queue=a%00b"),
    "lone surrogate": get("tasks", "program=%ED%A0%80"),
    "no UTF-8": get("tasks", "program=%FF"),
    "over-long": get("tasks", "program=" + "a" * 4096),
    "limit 0": get("tasks", "limit=0"),
    "limit 101": get("tasks", "limit=101"),
    "limit 1.5": get("tasks", "limit=1.5"),
    "limit of 10,000 digits": get("tasks", "limit=" + "9" * 4000),
    "limit in other digits": get("tasks", "limit=%D9%A3"),
    "limit with a blank": get("tasks", "limit=+1"),
    "cursor that is no id": get("tasks", "cursor=1"),
    "cursor in capitals": get("tasks", "cursor=01A2295B-6675-71A8-B1AD-BC9E0A4DD915"),
    "wait nan": get("tasks/{queued}/result", "wait_seconds=nan"),
    "wait inf": get("tasks/{queued}/result", "wait_seconds=inf"),
    "wait -1": get("tasks/{queued}/result", "wait_seconds=-1"),
    "wait 20.1": get("tasks/{queued}/result", "wait_seconds=20.1"),
    "wait with an underscore": get("tasks/{queued}/result", "wait_seconds=1_0"),
    "attempts from 0": get("tasks/{queued}/attempts", "cursor=0"),
    "attempts from 2^31": get("tasks/{queued}/attempts", "cursor=2147483648"),
}

OF_OTHERS = {
    "another tenant's task": get("tasks/{stranger_task}", problem=NOT_FOUND),
    "another tenant's result": get("tasks/{stranger_task}/result", problem=NOT_FOUND),
    "another tenant's result with a wait": get("tasks/{stranger_task}/result", "wait_seconds=20", problem=NOT_FOUND),
    "another tenant's attempts": get("tasks/{stranger_task}/attempts", problem=NOT_FOUND),
    "another tenant's task to cancel": Bad(problem=NOT_FOUND, path="tasks/{stranger_task}/cancel", headers={}),
    "another tenant's task to requeue": Bad(
        problem=NOT_FOUND, path="tasks/{stranger_task}/requeue", body=DOCUMENTS["requeue"]
    ),
    "another tenant's session to extend": Bad(problem=NOT_FOUND, path="sessions/{stranger_session}/extend", headers={}),
    "another tenant's session to close": Bad(problem=NOT_FOUND, path="sessions/{stranger_session}/close", headers={}),
    "another tenant's session to open": Bad(
        problem=NOT_FOUND,
        method="PUT",
        path="sessions/{stranger_session}",
        body=lambda scene: new_session(catalogue=[{"name": "new", "version": "1", "entry_point": "m:f"}]),
    ),
    "another tenant's session to acquire with": acquire(NOT_FOUND, "sessions/{stranger_session}/acquire", sequence=1),
    "another tenant's session to wait with": acquire(
        NOT_FOUND, "sessions/{stranger_session}/acquire", sequence=1, wait_seconds=20
    ),
    "another tenant's session to claim with": claims(
        problem=NOT_FOUND, path="sessions/{stranger_session}/dispatch/claim"
    ),
    "another tenant's session to quarantine with": quarantine(
        problem=NOT_FOUND, path="sessions/{stranger_session}/dispatch/quarantine"
    ),
    "session beyond the token's queues to claim with": claims(
        problem=NOT_FOUND, token=lambda scene: make_token(queues=("work",))
    ),
    "session beyond the token's queues to quarantine with": quarantine(
        problem=NOT_FOUND, token=lambda scene: make_token(queues=("work",))
    ),
    "unknown session": acquire(NOT_FOUND, "sessions/01a2295b-6675-71a8-b1ad-bc9e0a4dd915/acquire", sequence=1),
    "session beyond the token's queues": Bad(
        problem=NOT_FOUND,
        path="sessions/{session}/renew",
        body=lambda scene: {"owners": [owner(scene.active)]},
        token=lambda scene: make_token(queues=("work",)),
    ),
    "task beyond the token's queues": with_token(lambda scene: make_token(queues=("work",)), NOT_FOUND),
    "submission beyond the token's queues": Bad(
        problem=FORBIDDEN,
        body=lambda scene: new_task(queue="play"),
        token=lambda scene: make_token(queues=("work",)),
    ),
    "submission to a default queue beyond the token's": Bad(
        problem=FORBIDDEN, body=lambda scene: new_task(), token=lambda scene: make_token(queues=("work",))
    ),
    "list beyond the token's queues": get(
        "tasks", "queue=play", problem=FORBIDDEN, token=lambda scene: make_token(queues=("work",))
    ),
    "session for a queue beyond the token's": Bad(
        problem=FORBIDDEN,
        method="PUT",
        path="sessions/01a2295b-6675-71a8-b1ad-bc9e0a4dd915",
        body=lambda scene: new_session(queues=["work", "play"]),
        token=lambda scene: make_token(queues=("work",)),
    ),
}

TOKENS = {
    "no token": with_token(lambda scene: None, NO_TOKEN),
    "unknown token": with_token(lambda scene: f"ldg_{'0' * 16}_{'A' * 43}", NO_TOKEN),
    "wrong secret": with_token(lambda scene: scene.token[:-43] + "A" * 43, NO_TOKEN),
    "expired token": with_token(lambda scene: make_expired_token(), NO_TOKEN),
    "revoked token": with_token(lambda scene: make_revoked_token(), NO_TOKEN),
    "token that is not ASCII": with_token(lambda scene: scene.token[:-1] + "ä", NO_TOKEN),
    "token with more behind it": with_token(lambda scene: f"{scene.token}, x", NO_TOKEN),
    "token for a worker": with_token(lambda scene: make_token(Role.WORK), FORBIDDEN),
    "token for submission to acquire": Bad(
        problem=FORBIDDEN,
        path="sessions/{session}/acquire",
        body=acquisition,
        token=lambda scene: make_token(Role.SUBMIT),
    ),
    "token for submission to claim": claims(problem=FORBIDDEN, token=lambda scene: make_token(Role.SUBMIT)),
    "token to operate to quarantine": quarantine(problem=FORBIDDEN, token=lambda scene: make_token(Role.OPERATE)),
    "token for submission to requeue": Bad(
        problem=FORBIDDEN,
        path="tasks/{cancelled}/requeue",
        body=DOCUMENTS["requeue"],
        token=lambda scene: make_token(Role.SUBMIT),
    ),
    "token to operate to submit": Bad(
        problem=FORBIDDEN, body=lambda scene: new_task(), token=lambda scene: make_token(Role.OPERATE)
    ),
    "bad body without a token": Bad(problem=NO_TOKEN, body=b"{", token=lambda scene: None),
    "unknown task without a token": get(f"tasks/{unknown()}", problem=NO_TOKEN, token=lambda scene: None),
}

#: Every bad request by its name, in groups.
BAD = {
    "body": BODIES,
    "value": VALUES,
    "address": ADDRESSES,
    "query": QUERIES,
    "others": OF_OTHERS,
    "token": TOKENS,
}
