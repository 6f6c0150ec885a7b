"""The task service as a Django view: short waits that say so, bodies of any size, and no CSRF token."""

import json
import time
from typing import Any

import pytest
from django.http import UnreadablePostError
from django.test import Client

from ledgence.http import body, views
from ledgence.service import DatabaseTaskService
from ledgence_worker import limits
from ledgence_worker.errors import Busy
from ledgence_worker.protocol import Acquire, Acquired
from tests.http.requests import acquisition
from tests.http.scene import Scene, make_token, new_task, settlement
from tests.ledger.actors import state_of, submit_task

pytestmark = [pytest.mark.django_db, pytest.mark.process]


def ask(client: Client, method: str, path: str, document: Any = None, *, token: str, query: str = "") -> Any:
    return client.generic(
        method,
        f"/ledgence/v1/{path}",
        b"" if document is None else json.dumps(document).encode(),
        "application/json",
        headers={"authorization": f"Bearer {token}"},
        QUERY_STRING=query,
    )


@pytest.mark.parametrize("wait", [0, 0.3, 1, 20])
def test_a_wait_is_cut_to_a_second_and_the_reply_says_so(wait: float, client: Client, scene: Scene) -> None:
    began = time.monotonic()
    reply = ask(client, "GET", f"tasks/{scene.queued}/result", token=scene.token, query=f"wait_seconds={wait}")
    assert reply.json()["state"] == "queued"
    expected = min(wait, 1.0)
    assert expected <= time.monotonic() - began < expected + 1
    assert reply.headers.get("Ledgence-Wait-Limit") == ("1" if wait > 1 else None)


def test_a_wait_for_work_ends_with_what_is_there(client: Client, scene: Scene) -> None:
    path = f"sessions/{scene.session}/acquire"
    body = acquisition(scene, wait_seconds=20, settlements=[settlement(scene.active)])
    reply = ask(client, "POST", path, body, token=scene.token)
    assert [one["task_id"] for one in reply.json()["assignments"]] == [str(scene.queued)]
    assert state_of(scene.active.task_id) == "succeeded"
    # With nothing left it lasts its second, and the sequence counts.
    for sequence in (3, 4):
        reply = ask(client, "POST", path, acquisition(scene, sequence=sequence, wait_seconds=20), token=scene.token)
        assert (reply.status_code, reply.json()) == (200, {})


def test_it_needs_no_csrf_token(scene: Scene) -> None:
    strict = Client(enforce_csrf_checks=True)
    assert ask(strict, "POST", "tasks", new_task(), token=scene.token).status_code == 201


def test_bodies_may_be_larger_than_what_django_takes(client: Client, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    reply = ask(client, "POST", "tasks", new_task(data="x" * 1_000_000), token=make_token())
    assert reply.status_code == 201


def test_the_body_of_head_is_empty_and_its_length_told(client: Client) -> None:
    reply: Any = client.head("/ledgence/v1/health/live")
    assert (reply.status_code, reply.content) == (200, b"")
    assert int(reply.headers["Content-Length"]) == len(b'{"status":"live"}')


def test_a_slow_body_is_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "BODY_SECONDS", -1.0)
    reply = ask(client, "POST", "tasks", new_task(), token=make_token())
    assert (reply.status_code, reply.json()["code"]) == (408, "unavailable")


def test_a_body_that_cannot_be_read_is_refused(rf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    request = rf.post("/ledgence/v1/tasks", b"{}", content_type="application/json")
    request.META["HTTP_AUTHORIZATION"] = f"Bearer {make_token()}"

    def read(size: int) -> bytes:
        raise UnreadablePostError("gone")

    monkeypatch.setattr(request, "read", read)
    assert views.answer(request, "tasks").status_code == 408


def test_the_root_of_the_api_is_no_page_of_the_project(client: Client) -> None:
    submit_task()
    for path in ("/ledgence/v1/", "/ledgence/v1/tasks/%0a", "/ledgence/v1/admin/"):
        reply: Any = client.get(path)
        assert (reply.status_code, reply.headers["Content-Type"]) == (404, "application/problem+json")


class Stream:
    """A body of the caller's that is read part by part."""

    def __init__(self, size: int) -> None:
        self.left = size

    def read(self, size: int) -> bytes:
        part = b" " * min(size, self.left)
        self.left -= len(part)
        return part


@pytest.mark.parametrize(
    ("size", "extra", "is_read"),
    [
        (limits.SUBMIT_BYTES + 1, {}, True),
        (body.DROPPED_BYTES_MAX + 1, {}, False),
        (limits.SUBMIT_BYTES + 1, {"HTTP_EXPECT": "100-continue"}, False),
    ],
    ids=["near end", "far end", "not sent yet"],
)
def test_what_is_left_of_a_refused_body_is_read_if_its_end_is_near(
    size: int, extra: dict[str, str], is_read: bool, rf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = rf.post("/ledgence/v1/tasks", content_type="application/json", CONTENT_LENGTH=str(size), **extra)
    stream = Stream(size)
    monkeypatch.setattr(request, "read", stream.read)
    assert views.answer(request, "tasks").status_code == 413
    assert stream.left == (0 if is_read else size)


def test_a_refused_body_is_not_read_for_ever(rf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "DROPPED_SECONDS", 0.0)
    size = limits.SUBMIT_BYTES + 1
    request = rf.post("/ledgence/v1/tasks", content_type="application/json", CONTENT_LENGTH=str(size))
    stream = Stream(size)
    monkeypatch.setattr(request, "read", stream.read)
    assert views.answer(request, "tasks").status_code == 413
    assert stream.left == size - views.READ_BYTES


@pytest.mark.parametrize(("wait", "status"), [(0, 429), (20, 200)])
def test_what_is_busy_is_not_told_to_who_may_wait(
    wait: int, status: int, client: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, acquire = [], DatabaseTaskService.try_acquire

    def be_busy_once(self: DatabaseTaskService, command: Acquire, *, is_last: bool) -> Acquired | None:
        tried.append(is_last)
        if len(tried) == 1:
            raise Busy("locked")
        return acquire(self, command, is_last=is_last)

    monkeypatch.setattr(DatabaseTaskService, "try_acquire", be_busy_once)
    path = f"sessions/{scene.session}/acquire"
    reply = ask(client, "POST", path, acquisition(scene, wait_seconds=wait), token=scene.token)
    assert reply.status_code == status
    if status == 200:
        [assignment] = reply.json()["assignments"]
        assert assignment["task_id"] == str(scene.queued)
        # What it was held for is not counted for its lease.
        assert views.POLL_SECONDS <= reply.json()["held_seconds"] < 1
