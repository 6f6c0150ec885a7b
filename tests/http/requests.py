"""A valid request to every endpoint, with every member of its body filled, and what is made of one by spoiling it."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from ledgence.http.endpoint import Endpoint
from ledgence.http.table import ENDPOINTS
from tests.http.scene import Scene, new_session, new_task, owner, settlement

ENDPOINT = {endpoint.name: endpoint for endpoint in ENDPOINTS}
REPORT = {
    "error": {"classes": ["builtins.ValueError"], "message": "no", "traceback": "here"},
    "exit_status": 1,
    "output": "printed",
    "seconds": 1.5,
}

#: A place in a document: keys and indexes from its root.
type Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A valid request."""

    method: str
    path: str
    document: Any = None

    @property
    def options(self) -> tuple[str, str, Any]:
        return self.method, self.path, self.document


def full_task() -> dict[str, Any]:
    return new_task(
        data={"a": ["x", 1.5, None]},
        queue="work",
        idempotency_key=f"key {uuid4()}",
        correlation_key="order",
        priority=1,
        run_after="2030-01-01T00:00:00+00:00",
        max_attempts=2,
        timeout=1.5,
        backoff={"initial_seconds": 1.0, "factor": 2.0, "maximum_seconds": 60.0, "jitter": 0.1},
        retry_on=["failed", "builtins.ValueError"],
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )


def acquisition(scene: Scene, **members: Any) -> dict[str, Any]:
    """Return the body of the session's next acquisition."""
    return {"channel": 0, "sequence": 2, "capacity": 1, "wait_seconds": 0.0} | members


def claim(*dispatches: dict[str, Any], **members: Any) -> dict[str, Any]:
    """Return the body of a session's first claim on a channel of its own."""
    return {"channel": 2, "sequence": 1, "dispatches": list(dispatches), "authorize": True} | members


def dispatch(task: UUID, generation: int = 1) -> dict[str, Any]:
    return {"task_id": str(task), "generation": generation}


def refused_message(**members: Any) -> dict[str, Any]:
    return {"message_id": f"m {uuid4()}", "reason": "malformed", "detail": "no JSON", "body": "what?"} | members


#: The document of each endpoint that takes one.
DOCUMENTS: dict[str, Callable[[Scene], Any]] = {
    "submit": lambda scene: full_task(),
    "submit_batch": lambda scene: {"tasks": [full_task(), full_task()]},
    "requeue": lambda scene: {"action_id": str(uuid4()), "revision": 1, "reason": "because"},
    "open_session": lambda scene: new_session(queues=["work"], exclude_queues=["play"]),
    "acquire": lambda scene: acquisition(scene, settlements=[settlement(scene.active, report=REPORT)]),
    "claim": lambda scene: claim(dispatch(scene.queued), dispatch(scene.cancelled), dispatch(uuid4())),
    "quarantine": lambda scene: {"queue": "work", "messages": [refused_message(), refused_message()]},
    "authorize": lambda scene: {"owners": [owner(scene.active)]},
    "renew": lambda scene: {"owners": [owner(scene.active)]},
    "settle": lambda scene: {"settlements": [settlement(scene.active, report=REPORT)]},
    "release": lambda scene: {"owners": [owner(scene.active)]},
}


def valid_request(name: str, scene: Scene) -> Request:
    """Return a request to an endpoint that would be answered."""
    endpoint = ENDPOINT[name]
    document = DOCUMENTS[name](scene) if name in DOCUMENTS else None
    return Request(method=endpoint.method, path=path_of(endpoint, scene), document=document)


def path_of(endpoint: Endpoint, scene: Scene) -> str:
    """Return the address of an endpoint, naming something of the scene."""
    if endpoint.name == "open_session":
        named = uuid4()
    elif endpoint.path.startswith("sessions/"):
        named = scene.session
    else:
        named = scene.cancelled if endpoint.name == "requeue" else scene.queued
    return endpoint.path.format(id=named)


def places(document: Any, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield every value of a document, with its place."""
    yield at, document
    if isinstance(document, dict):
        for name, value in document.items():
            yield from places(value, (*at, name))
    if isinstance(document, list):
        for index, value in enumerate(document):
            yield from places(value, (*at, index))


def replaced(document: Any, at: Place, value: object) -> Any:
    """Return a copy of a document with another value at a place."""
    if not at:
        return value
    made = copy.deepcopy(document)
    inner = made
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return made


def without(document: Any, at: Place) -> Any:
    """Return a copy of a document that lacks a member."""
    made = copy.deepcopy(document)
    inner = made
    for key in at[:-1]:
        inner = inner[key]
    del inner[at[-1]]
    return made


def json_pointer(at: Place) -> str:
    return "/".join(map(str, at)) or "."
