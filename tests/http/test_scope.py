"""What the API tells of tasks outside a token's scope, which is nothing; and what it records of the token."""

from typing import Any
from uuid import uuid4

import pytest

from ledgence.http import tasks
from ledgence.models import DeliveryIntent, OperatorAction, QuarantinedMessage, Role
from tests.http.requests import claim, dispatch, refused_message
from tests.http.scene import Scene, digest, make_token, new_session, new_task
from tests.http.site import Site
from tests.ledger.actors import submit_task


def requeue_body(**members: Any) -> dict[str, Any]:
    return {"action_id": str(uuid4()), "revision": 1, "reason": "tests"} | members


def test_a_key_of_another_queue_is_a_conflict_that_names_no_task(site: Site, scene: Scene) -> None:
    body = new_task(queue="secret", idempotency_key="k")
    hidden = site.ask("POST", "tasks", body, token=scene.token).assert_ok(201)["id"]
    limited = make_token(Role.SUBMIT, queues=("mine",))
    for path, document in (
        ("tasks", new_task(queue="mine", idempotency_key="k")),
        ("tasks/batch", {"tasks": [new_task(queue="mine", idempotency_key="k")]}),
    ):
        answer = site.ask("POST", path, document, token=limited)
        answer.assert_problem(409, "conflict")
        assert hidden not in answer.body.decode()


def open_limited(site: Site, *queues: str) -> tuple[str, str]:
    """Open a session that serves what its token is limited to, and return its address and the token."""
    token, path = make_token(Role.WORK, queues=queues), f"sessions/{uuid4()}"
    site.ask("PUT", path, new_session(), token=token).assert_ok()
    return path, token


def test_work_beyond_the_tokens_queues_is_not_found_to_be_claimed(site: Site, scene: Scene) -> None:
    own = submit_task(queue="mine")
    path, token = open_limited(site, "mine")
    body = claim(*map(dispatch, (scene.queued, scene.stranger_task, scene.active.task_id, own)))
    reply = site.ask("POST", f"{path}/dispatch/claim", body, token=token).assert_ok()
    statuses = [answer["status"] for answer in reply["answers"]]
    assert statuses == ["not_found"] * 3 + ["claimed"]
    assert [one["task_id"] for one in reply["assignments"]] == [str(own)]
    assert {row.pk for row in DeliveryIntent.objects.all()} == {scene.queued, scene.stranger_task}


def test_messages_are_recorded_for_the_tokens_queues_alone(site: Site, scene: Scene) -> None:
    submit_task(queue="mine")
    path, token = open_limited(site, "mine")
    for queue in ("work", "default", "nowhere"):
        body = {"queue": queue, "messages": [refused_message()]}
        site.ask("POST", f"{path}/dispatch/quarantine", body, token=token).assert_problem(404, "not_found")
    assert QuarantinedMessage.objects.count() == 0
    body = {"queue": "mine", "messages": [refused_message()]}
    site.ask("POST", f"{path}/dispatch/quarantine", body, token=token).assert_ok()
    assert [row.queue.name for row in QuarantinedMessage.objects.all()] == ["mine"]


def test_a_requeue_is_recorded_with_the_tokens_public_id(site: Site, scene: Scene) -> None:
    """Two tokens of one name leave different records."""
    for token in (make_token(Role.OPERATE, name="ci"), make_token(Role.OPERATE, name="ci")):
        body = requeue_body(revision=7)
        assert site.ask("POST", f"tasks/{scene.cancelled}/requeue", body, token=token).assert_ok() == {
            "status": "moved_on"
        }
        action = OperatorAction.objects.get(pk=body["action_id"])
        assert action.actor_name == f"token {token.split('_')[1]} (ci)"


def test_a_task_that_goes_before_its_requeue_is_not_found(
    site: Site, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pruned after the handler has found it: the same answer as a moment later."""
    monkeypatch.setattr(tasks, "requeue", lambda found, operator, *, using: dict.fromkeys(map(str, found), "not_found"))
    before = digest()
    answer = site.ask("POST", f"tasks/{scene.cancelled}/requeue", requeue_body(), token=scene.token)
    answer.assert_problem(404, "not_found")
    assert digest() == before
