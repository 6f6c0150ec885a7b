"""Roles: what each endpoint needs, as a table, and no more is allowed."""

import pytest

from ledgence.models import Role
from tests.http.requests import ENDPOINT, valid_request
from tests.http.scene import Scene, make_token
from tests.http.site import Site

ALLOWED = {
    "submit": {"submit"},
    "submit_batch": {"submit"},
    "list_tasks": {"submit", "operate"},
    "status": {"submit", "operate"},
    "result": {"submit", "operate"},
    "attempts": {"submit", "operate"},
    "cancel": {"submit", "operate"},
    "requeue": {"operate"},
    "open_session": {"work"},
    "extend_session": {"work"},
    "close_session": {"work"},
    "acquire": {"work"},
    "claim": {"work"},
    "quarantine": {"work"},
    "authorize": {"work"},
    "renew": {"work"},
    "settle": {"work"},
    "release": {"work"},
    "is_drained": {"work"},
    "live": {"submit", "work", "operate", "none"},
    "ready": {"submit", "work", "operate", "none"},
}


def test_the_table_has_every_endpoint() -> None:
    assert ALLOWED.keys() == ENDPOINT.keys()


@pytest.mark.parametrize("name", ALLOWED)
def test_an_endpoint_answers_its_roles_alone(name: str, site: Site, scene: Scene) -> None:
    tokens = {role.value: make_token(role) for role in Role} | {"none": None}
    for role in sorted(tokens, key=ALLOWED[name].__contains__):
        answer = site.ask(*valid_request(name, scene).options, token=tokens[role])
        if role in ALLOWED[name]:
            answer.assert_ok(201 if name == "submit" else 200)
        elif role == "none":
            answer.assert_problem(401, "unauthenticated")
            assert answer.headers["www-authenticate"] == "Bearer"
        else:
            detail = answer.assert_problem(403, "forbidden")
            assert "tests" in detail
            assert " or ".join(ENDPOINT[name].roles) in detail
