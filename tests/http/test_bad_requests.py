"""Bad requests: a typed problem each, and never a change, whichever server answers."""

import logging
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest
from django.test import Client

from tests.http.bad_requests import BAD, Bad
from tests.http.scene import Scene, digest
from tests.http.site import PREFIX, Answer, Site

SECRET = re.compile("ldg_[0-9a-f]{16}_[A-Za-z0-9_-]{20}")


def ask_site(site: Site, bad: Bad, scene: Scene) -> Answer:
    path = unquote(bad.path.format(**names(scene)), errors="replace")
    return site.ask(
        bad.method, path, body=bad.content(scene), headers=bad.headers, query=bad.query, token=bad.token(scene)
    )


def ask_view(client: Client, bad: Bad, scene: Scene) -> Answer:
    """Ask the view through Django, as its test client does."""
    headers = dict(bad.headers)
    kind = headers.pop("content-type", "")
    if (token := bad.token(scene)) is not None:
        headers["authorization"] = f"Bearer {token}"
    reply = client.generic(
        bad.method,
        PREFIX + bad.path.format(**names(scene)),
        bad.content(scene) or b"",
        kind,
        headers=headers,
        QUERY_STRING=bad.query,
        # Left out by the client where there is no body.
        CONTENT_TYPE=kind,
    )
    return Answer(
        status=reply.status_code,
        headers={name.lower(): value for name, value in reply.headers.items()},
        body=reply.content,
    )


def names(scene: Scene) -> dict[str, Any]:
    return {name: getattr(scene, name) for name in Scene.__dataclass_fields__}


@pytest.mark.parametrize("group", BAD)
def test_the_asgi_application_refuses(group, site: Site, scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    assert_refused(group, scene, lambda bad: ask_site(site, bad, scene), caplog)


@pytest.mark.parametrize("group", BAD)
def test_the_view_refuses(group, client: Client, scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    assert_refused(group, scene, lambda bad: ask_view(client, bad, scene), caplog)


def assert_refused(group: str, scene: Scene, ask: Callable[[Bad], Answer], caplog: pytest.LogCaptureFixture) -> None:
    """Check that each bad request of a group gets its problem, changes nothing, and leaves no secret anywhere."""
    caplog.set_level(logging.DEBUG, "ledgence")
    before, wrong = digest(), {}
    for name, bad in BAD[group].items():
        try:
            answer = ask(bad)
            answer.assert_problem(*bad.problem)
            assert changed(before) == set()
            assert_no_secret(answer, caplog)
        except AssertionError as error:
            wrong[name] = str(error)
    assert wrong == {}


def changed(before: dict[str, tuple[int, str]]) -> set[str]:
    """Return the tables that are not as they were, but for tokens that the request itself needed."""
    return {table for table, value in digest().items() if value != before[table]} - {"ledgence_apitoken"}


def assert_no_secret(answer: Answer, caplog: pytest.LogCaptureFixture) -> None:
    assert not SECRET.search(answer.body.decode())
    assert not SECRET.search(caplog.text)
    assert "request failed" not in caplog.text
