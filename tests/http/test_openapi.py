"""The description: every endpoint and every member is in it, and it says what the service takes."""

import json
from dataclasses import fields, is_dataclass
from typing import Any

import jsonschema_rs
import pytest

from ledgence.http.descriptions import COUNTS, RULES, VALUES
from ledgence.http.openapi import document
from ledgence.http.table import ENDPOINTS
from ledgence_worker import bodies, claims, programs, protocol
from tests.http.bad_requests import JSON
from tests.http.requests import DOCUMENTS, ENDPOINT, json_pointer, places, replaced, valid_request, without
from tests.http.scene import Scene, digest
from tests.http.site import Site

DOCUMENT = document(ENDPOINTS)
SCHEMAS = DOCUMENT["components"]["schemas"]
#: What a member may be by its type, and something that no member is.
SPOILERS: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    1.5,
    10**30,
    -(10**30),
    "",
    "x",
    "\0",
    "x" * 1000,
    [],
    [None],
    {},
    {"a": 1},
)

pytestmark = pytest.mark.process


def as_json(document: Any) -> dict[str, Any]:
    return {"body": json.dumps(document).encode(), "headers": JSON}


def class_of(name: str) -> Any:
    return next(kind for module in (bodies, claims, protocol, programs) if (kind := getattr(module, name, None)))


def test_every_endpoint_is_described() -> None:
    for endpoint in ENDPOINTS:
        operation = DOCUMENT["paths"][f"/{endpoint.path}"][endpoint.method.lower()]
        assert operation["operationId"] == endpoint.name
        assert {p["name"] for p in operation["parameters"] if p["in"] == "query"} == set(endpoint.query)
        assert (operation["security"] == []) == (not endpoint.roles)
        for status in endpoint.statuses:
            assert "application/json" in operation["responses"][str(status)]["content"]
        assert ("requestBody" in operation) == (endpoint.body is not None)
    assert sum(map(len, DOCUMENT["paths"].values())) == len(ENDPOINTS)


@pytest.mark.parametrize("name", sorted(SCHEMAS.keys() - {"Problem"}))
def test_every_member_of_a_type_is_described(name: str) -> None:
    kind = class_of(name)
    assert is_dataclass(kind)
    assert SCHEMAS[name]["properties"].keys() == {field.name for field in fields(kind)}
    assert SCHEMAS[name]["description"]


def test_requests_are_closed_and_replies_can_grow() -> None:
    closed = {name for name, schema in SCHEMAS.items() if schema.get("additionalProperties") is False}
    assert closed >= {endpoint.body.__name__ for endpoint in ENDPOINTS if endpoint.body is not None}
    assert closed >= {"Backoff", "CatalogueEntry", "Settlement", "Report", "Owner"}
    assert not closed & {endpoint.reply.__name__ for endpoint in ENDPOINTS}
    assert not closed & {"Assignment", "Renewal", "Settled", "AttemptStatus", "Problem"}
    assert all("additionalProperties" not in schema for name, schema in SCHEMAS.items() if name not in closed)


def test_what_is_said_beyond_the_types_is_said_of_members_that_exist() -> None:
    for owner, name in [*VALUES, *COUNTS]:
        assert name in SCHEMAS[owner]["properties"], (owner, name)
    assert RULES.keys() <= SCHEMAS.keys()


def test_every_reference_leads_somewhere() -> None:
    references = [value for at, value in places(DOCUMENT) if at and at[-1] == "$ref"]
    assert references
    assert {reference.rpartition("/")[2] for reference in references} <= SCHEMAS.keys()


def test_it_is_served_to_everybody(site: Site) -> None:
    served = site.ask("GET", "openapi.json").assert_ok()
    assert served["openapi"] == "3.1.0"
    assert served["paths"].keys() == {f"/{endpoint.path}" for endpoint in ENDPOINTS} | {"/openapi.json"}
    del served["paths"]["/openapi.json"]
    assert served == json.loads(json.dumps(DOCUMENT))


def validator(name: str) -> Any:
    schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    return jsonschema_rs.Draft202012Validator(schema)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_body_that_the_description_rules_out_is_refused(name: str, site: Site, scene: Scene) -> None:
    """Every value of a valid body in turn is replaced, and every member left out or joined by an unknown one."""
    request, kind = valid_request(name, scene), ENDPOINT[name].body
    assert kind is not None
    schema = validator(kind.__name__)
    assert schema.is_valid(request.document)
    before, tried = digest(), 0
    for at, spoilt in spoil(request.document):
        if schema.is_valid(spoilt):
            continue
        tried += 1
        answer = site.ask(request.method, request.path, **as_json(spoilt), token=scene.token)
        assert answer.status == 400, (json_pointer(at), spoilt, answer.body)
        answer.assert_problem(400, "invalid_input")
    assert tried > 20
    assert digest() == before


def spoil(document: Any) -> Any:
    for at, value in places(document):
        for spoiler in SPOILERS:
            yield at, replaced(document, at, spoiler)
        if isinstance(value, dict):
            yield at, replaced(document, at, value | {"unknown": 1})
        if at and isinstance(at[-1], str):
            yield at, without(document, at)


@pytest.mark.parametrize("name", ENDPOINT)
def test_a_reply_is_what_the_description_says(name: str, site: Site, scene: Scene) -> None:
    answer = site.ask(*valid_request(name, scene).options, token=scene.token)
    kind: Any = ENDPOINT[name].reply
    errors = [error.message for error in validator(kind.__name__).iter_errors(answer.assert_ok(answer.status))]
    assert errors == []
    assert answer.status in ENDPOINT[name].statuses


@pytest.mark.parametrize("name", DOCUMENTS)
def test_half_a_surrogate_pair_is_refused_in_every_text(name: str, site: Site, scene: Scene) -> None:
    request = valid_request(name, scene)
    before = digest()
    for at, value in places(request.document):
        if isinstance(value, str):
            body = json.dumps(replaced(request.document, at, "a\udfffb")).encode()
            answer = site.ask(request.method, request.path, body=body, headers=JSON, token=scene.token)
            answer.assert_problem(400, "invalid_input")
    assert digest() == before


#: Texts in which a NUL is kept: a program's data, its result, what a worker saw of it, and of a message.
KEEP_NUL = {"data", "result", "message", "traceback", "output", "classes", "detail", "body"}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_nul_is_refused_in_every_name_and_key(name: str, site: Site, scene: Scene) -> None:
    request = valid_request(name, scene)
    before = digest()
    for at, value in places(request.document):
        if isinstance(value, str) and not KEEP_NUL & set(at):
            spoilt = replaced(request.document, at, f"{value[:8]}\0")
            answer = site.ask(request.method, request.path, spoilt, token=scene.token)
            answer.assert_problem(400, "invalid_input")
    assert digest() == before
