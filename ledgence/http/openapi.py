"""The description of the API in OpenAPI 3.1, made from the table of endpoints and the types of their bodies."""

import json
import types
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from ledgence.http.descriptions import COUNTS, RULES, TIME, VALUES, Schema
from ledgence.http.endpoint import Endpoint, Reply
from ledgence.http.limits import BIGINT_MAX
from ledgence_worker.problems import MEDIA_TYPE, PROBLEMS
from ledgence_worker.programs import Unset

SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": -BIGINT_MAX, "maximum": BIGINT_MAX},
    float: {"type": "number", "minimum": -BIGINT_MAX, "maximum": BIGINT_MAX},
    # In its one spelling.
    UUID: {"type": "string", "format": "uuid", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
    datetime: TIME,
    Any: {},
}


def describe(endpoints: Iterable[Endpoint]) -> Endpoint:
    """Return the endpoint that serves the description of itself and the others."""
    others = tuple(endpoints)

    @cache
    def body() -> bytes:
        return json.dumps(document((*others, own)), indent=1).encode()

    own = Endpoint(
        name="openapi",
        method="GET",
        path="openapi.json",
        summary="Describe this API",
        handler=lambda request: Reply(body=body()),
        lane=None,
        reply=dict,
    )
    return own


def document(endpoints: Iterable[Endpoint]) -> Schema:
    """Return the whole description."""
    schemas: dict[str, Schema] = {"Problem": _problem_schema()}
    paths: dict[str, Schema] = {}
    table = tuple(endpoints)
    for endpoint in table:
        if endpoint.body is not None:
            _schema(endpoint.body, schemas)
    closed = set(schemas)
    for endpoint in table:
        paths.setdefault(f"/{endpoint.path}", {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    for name in closed - {"Problem"}:
        # Of replies nothing is closed, so that they can grow.
        schemas[name]["additionalProperties"] = False
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ledgence task service",
            "version": "1",
            "description": (
                "Every request may be repeated unchanged when its reply was lost. Whole numbers are written without a "
                "fraction. Unknown members and parameters of a request are refused; those of a reply are to be ignored."
            ),
        },
        "servers": [{"url": "/ledgence/v1"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint, schemas: dict[str, Schema]) -> Schema:
    parameters: list[Schema] = [
        {"name": name, "in": "query", "description": parameter.about, "schema": dict(parameter.schema)}
        for name, parameter in endpoint.query.items()
    ]
    if "{id}" in endpoint.path:
        parameters.insert(0, {"name": "id", "in": "path", "required": True, "schema": SCALARS[UUID]})
    operation: Schema = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": {
            **{str(status): _reply(endpoint, schemas) for status in endpoint.statuses},
            **{str(status): _problem_reply() for status in _refusals(endpoint)},
        },
        "security": [{"token": []}] if endpoint.roles else [],
    }
    if endpoint.roles:
        operation["description"] = f"Needs a token with the role {' or '.join(endpoint.roles)}."
    if endpoint.body is not None:
        content = {"application/json": {"schema": _schema(endpoint.body, schemas)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _reply(endpoint: Endpoint, schemas: dict[str, Schema]) -> Schema:
    schema = {"type": "object"} if endpoint.reply is dict else _schema(endpoint.reply, schemas)
    return {
        "description": endpoint.summary,
        "headers": {"Request-Id": {"schema": {"type": "string"}}},
        "content": {"application/json": {"schema": schema}},
    }


def _refusals(endpoint: Endpoint) -> list[int]:
    every = {400, 405, 408, 413, 415, 429, 503} | ({401, 403} if endpoint.roles else set())
    named = {404, 409, 410} if "{id}" in endpoint.path else {409} if endpoint.body is not None else set()
    return sorted((every | named) - set(endpoint.statuses))


def _problem_reply() -> Schema:
    return {
        "description": "Refused, with the reason.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


def _problem_schema() -> Schema:
    return {
        "type": "object",
        "required": ["type", "title", "status", "detail", "code"],
        "properties": {
            "type": {"type": "string", "format": "uri"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "code": {"enum": [problem.code for problem in PROBLEMS]},
        },
    }


def _schema(kind: Any, schemas: dict[str, Schema]) -> Schema:
    """Return a type's schema; those of dataclasses stand under their names in the components."""
    if is_dataclass(kind):
        name: str = kind.__name__  # type: ignore[union-attr]
        if name not in schemas:
            schemas[name] = {}
            schemas[name] = _object(kind, schemas)
        return {"$ref": f"#/components/schemas/{name}"}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        inner = [_schema(one, schemas) for one in arguments if one not in (types.NoneType, Unset)]
        return {"anyOf": [*inner, {"type": "null"}]} if types.NoneType in arguments else inner[0]
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return {"type": "array", "items": _schema(arguments[0], schemas)}
        row = [_schema(argument, schemas) for argument in arguments]
        return {"type": "array", "prefixItems": row, "minItems": len(row), "maxItems": len(row)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    return dict(SCALARS[kind])


def _object(kind: Any, schemas: dict[str, Schema]) -> Schema:
    hints = get_type_hints(kind)
    properties = {f.name: _member(kind.__name__, f.name, hints[f.name], schemas) for f in fields(kind)}
    required = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    return {
        "type": "object",
        "description": (kind.__doc__ or "").strip(),
        "properties": properties,
        "required": required,
        **RULES.get(kind.__name__, {}),
    }


def _member(owner: str, name: str, kind: Any, schemas: dict[str, Schema]) -> Schema:
    schema = _schema(kind, schemas)
    if (count := COUNTS.get((owner, name))) is not None:
        return schema | count
    return VALUES.get((owner, name), schema)
