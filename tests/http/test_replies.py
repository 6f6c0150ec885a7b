"""Replies to errors: one title for each type, when to come back, and a line in the log that can be found."""

import json
import logging

import pytest
from django.db import OperationalError
from django.test import Client

from ledgence.http import tasks
from ledgence.http.endpoint import Reply
from ledgence.http.replies import Refused, explain
from ledgence_worker.errors import Unavailable
from ledgence_worker.problems import BY_CODE, PROBLEMS
from tests.http.scene import Scene
from tests.http.site import PREFIX, Site

REFUSALS = [Refused(status, "no") for status in (400, 404, 405, 408, 413, 415)]
ERRORS = [*REFUSALS, *[problem.error("no") for problem in PROBLEMS], ZeroDivisionError("secret")]


def told(error: Exception) -> Reply:
    return explain(error, request_id="mine-1", method="GET", path="/tasks\n")


@pytest.mark.parametrize("error", ERRORS, ids=[f"{n}-{type(error).__name__}" for n, error in enumerate(ERRORS)])
def test_a_type_has_one_title_and_what_may_be_repeated_says_when(error: Exception) -> None:
    reply = told(error)
    document = json.loads(reply.body)
    assert document["type"] == f"urn:ledgence:problem:{document['code']}"
    assert document["title"] == BY_CODE[document["code"]].title
    assert document["status"] == reply.status
    assert (("Retry-After", "1") in reply.headers) == (document["code"] in ("busy", "unavailable"))
    assert b"secret" not in reply.body


def test_what_a_refusal_adds_stays() -> None:
    assert ("Allow", "GET") in told(Refused(405, "no", Allow="GET")).headers


def test_what_the_database_said_stands_in_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise Unavailable("host 10.0.0.1 is gone") from OperationalError()
    except Unavailable as error:
        assert b"10.0.0.1" not in told(error).body
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "request_id=mine-1 method=GET path='/tasks\\n' error=host 10.0.0.1" in record.getMessage()


def fail(*_: object) -> Reply:
    raise ZeroDivisionError


@pytest.mark.parametrize("way", ["asgi", "wsgi"])
def test_a_failure_is_found_in_the_log_under_the_requests_id(
    way: str, site: Site, scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tasks, "_find", fail)
    headers = {"request-id": "mine-2", "authorization": f"Bearer {scene.token}"}
    path = f"{PREFIX}tasks/{scene.queued}"
    if way == "asgi":
        answer = site.ask("GET", path, headers=headers)
        assert (answer.status, answer.headers["request-id"]) == (503, "mine-2")
    else:
        reply = Client().get(path, headers=headers)
        assert (reply.status_code, reply.headers["Request-Id"]) == (503, "mine-2")
    [record] = [record for record in caplog.records if "request failed" in record.getMessage()]
    assert f"request_id=mine-2 method=GET path='{path}'" in record.getMessage()
    assert record.exc_info is not None
