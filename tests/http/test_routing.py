"""Routing: which endpoint answers, and what the first lines of a request alone rule out."""

from uuid import UUID

import pytest

from ledgence.http.replies import Refused
from ledgence.http.routing import has_body, read_head
from ledgence.http.table import ENDPOINTS

ID = "01a2295b-6675-71a8-b1ad-bc9e0a4dd915"


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_each_endpoint_is_found_at_its_address(endpoint) -> None:
    head = read_head(endpoint.method, endpoint.path.format(id=ID), "", {})
    assert head.endpoint is endpoint
    assert head.id == (UUID(ID) if "{id}" in endpoint.path else None)


def test_names_addresses_and_methods_are_unique() -> None:
    assert len({endpoint.name for endpoint in ENDPOINTS}) == len(ENDPOINTS)
    assert len({(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}) == len(ENDPOINTS)


def test_only_the_public_endpoints_need_no_token() -> None:
    assert {endpoint.name for endpoint in ENDPOINTS if not endpoint.roles} == {"live", "ready"}


def refusal(method: str, path: str, **headers: str) -> Refused:
    with pytest.raises(Refused) as caught:
        read_head(method, path, "", {name.replace("_", "-"): value for name, value in headers.items()})
    return caught.value


@pytest.mark.parametrize(
    "path",
    ["", "/", "task", "tasks/", "/tasks", f"tasks/{ID}/", f"tasks/{ID}/{ID}", f"tasks/batch/{ID}", "tasks/{id}"],
)
def test_an_unknown_address_is_not_found(path: str) -> None:
    assert refusal("GET", path).status == 404


def test_head_is_answered_where_get_is() -> None:
    assert read_head("HEAD", "health/live", "", {}).endpoint.name == "live"
    assert refusal("HEAD", "tasks/batch").headers == {"Allow": "POST"}


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("tasks", "GET, HEAD, POST"), (f"sessions/{ID}", "PUT"), ("health/live", "GET, HEAD")],
)
def test_what_an_address_takes_is_told(path: str, allowed: str) -> None:
    error = refusal("OPTIONS", path)
    assert (error.status, error.headers) == (405, {"Allow": allowed})


@pytest.mark.parametrize("method", ["get", "Get", "", "GET ", "PROPFIND"])
def test_a_method_in_another_spelling_is_another_method(method: str) -> None:
    assert refusal(method, "tasks").status == 405


@pytest.mark.parametrize("length", ["-1", "+1", "1.0", "0x1", "1_0", "٣", " 1", "1, 1", "9" * 16])
def test_a_length_that_is_no_number_is_refused(length: str) -> None:
    assert refusal("POST", "tasks", content_length=length).status == 400


def test_a_body_that_is_told_to_be_too_large_is_refused_at_once() -> None:
    read_head("POST", "tasks", "", {"content-length": str(4 * 1024 * 1024)})
    assert refusal("POST", "tasks", content_length=str(4 * 1024 * 1024 + 1)).status == 413


def test_a_body_where_none_is_taken_is_refused_at_once() -> None:
    read_head("GET", "tasks", "", {"content-length": "0"})
    assert refusal("GET", "tasks", content_length="1").status == 400


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip", "", "x"])
def test_a_compressed_body_is_refused(encoding: str) -> None:
    error = refusal("POST", "tasks", content_encoding=encoding)
    assert (error.status, error.headers) == (415, {"Accept_Encoding": "identity"})


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, False),
        ({"content-length": ""}, False),
        ({"content-length": "0"}, False),
        ({"content-length": "000"}, False),
        ({"content-length": "10"}, True),
        ({"content-length": "x"}, True),
        ({"transfer-encoding": "chunked"}, True),
    ],
    ids=str,
)
def test_it_is_known_whether_a_body_follows(headers: dict[str, str], expected: bool) -> None:
    assert has_body(headers) is expected
