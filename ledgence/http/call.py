"""How a request becomes a reply: find its endpoint, authenticate, read it strictly, run the handler, tell errors."""

import logging
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID, uuid4

from ledgence.http.endpoint import Endpoint, Reply, Request, Topic
from ledgence.http.openapi import describe
from ledgence.http.table import ENDPOINTS
from ledgence.models import WorkerSession
from ledgence.service import DatabaseTaskService
from ledgence.tokens import Scope, authenticate
from ledgence_worker import limits, strict_json, wire
from ledgence_worker.errors import InvalidInput, LedgenceError, NotFound
from ledgence_worker.problems import MEDIA_TYPE, problem_of

logger = logging.getLogger("ledgence.http")

#: A task's data may be 64 deep, inside a batch inside the body.
DEPTH = limits.JSON_DEPTH + 4
QUERY_BYTES = 4096
ID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SESSIONS_MAX = 4096


class Refused(LedgenceError):
    """A request that is refused before it reaches a handler, with a status of its own."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status, self.headers = status, headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What is known of a request before its body: the endpoint that answers it, and what its headers say."""

    endpoint: Endpoint
    id: UUID | None
    query: str
    authorization: str | None
    content_type: str
    #: None: not told, as with a body in chunks.
    content_length: int | None


def read_head(method: str, path: str, query: str, headers: Mapping[str, str]) -> Head:
    """Find the endpoint of a request; ``path`` is below /ledgence/v1/, headers by lower-case name. Raises Refused."""
    endpoint, id = _route(method, path)
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Refused(415, "A body must not be compressed.", Accept_Encoding="identity")
    length = headers.get("content-length")
    if length is not None and not re.fullmatch("[0-9]{1,15}", length):
        raise Refused(400, "Content-Length is no number.")
    head = Head(
        endpoint=endpoint,
        id=id,
        query=query,
        authorization=headers.get("authorization"),
        content_type=headers.get("content-type", ""),
        content_length=None if length is None else int(length),
    )
    if head.content_length is not None:
        check_size(head, head.content_length)
    return head


def check_size(head: Head, size: int) -> None:
    """Refuse a body that is, or has become, too large. Raises Refused."""
    if size > head.endpoint.body_bytes:
        raise Refused(
            413, f"The body has more than the {head.endpoint.body_bytes} bytes that {head.endpoint.name} takes."
        )


def _route(method: str, path: str) -> tuple[Endpoint, UUID | None]:
    words = path.split("/")
    id = UUID(words[1]) if len(words) > 1 and ID.fullmatch(words[1]) else None
    if id is not None:
        words[1] = "{id}"
    found = _ROUTES.get("/".join(words))
    if found is None:
        raise Refused(404, "There is no such address.")
    # HEAD is GET without the body, which the servers leave out.
    endpoint = found.get("GET" if method == "HEAD" else method)
    if endpoint is None:
        raise Refused(405, f"This address takes {', '.join(sorted(found))}.", Allow=", ".join(sorted(found)))
    return endpoint, id


_ROUTES: dict[str, dict[str, Endpoint]] = {}
for _endpoint in (*ENDPOINTS, describe(ENDPOINTS)):
    _ROUTES.setdefault(_endpoint.path, {})[_endpoint.method] = _endpoint


class Call:
    """One request being answered. Its methods touch the database, and belong to one thread at a time."""

    def __init__(self, service: DatabaseTaskService, head: Head) -> None:
        self._service = service
        self._head = head
        self._request: Request | None = None

    def authenticate(self) -> None:
        """Check the token alone, before a large body is taken. Raises Unauthenticated, Forbidden, Unavailable."""
        with self._service.calling("http"):
            _authenticate(self._head, using=self._service.using)

    def read(self, body: bytes) -> tuple[float, Topic | None]:
        """Authenticate and read the request; return how long it may wait, and for what. Raises LedgenceError."""
        head = self._head
        with self._service.calling("http"):
            scope = _authenticate(head, using=self._service.using)
            self._request = request = Request(
                service=self._service,
                scope=scope,
                id=head.id,
                query=_read_query(head),
                body=_read_body(head, body),
            )
            if scope is not None and head.endpoint.path.startswith("sessions/{id}/"):
                _check_session(request)
        return (0.0, None) if head.endpoint.wait is None else head.endpoint.wait(request)

    def attempt(self, *, is_last: bool) -> Reply | None:
        """Run the handler; None while there is nothing to tell and the request may wait. Raises LedgenceError."""
        if self._request is None:
            raise RuntimeError("A call is attempted before it is read.")
        self._request.is_last = is_last
        with self._service.calling("http"):
            reply = self._head.endpoint.handler(self._request)
            if self._head.endpoint.name == "open_session":
                # An id that was used in another scope is answered like any that is not one's own.
                _check_session(self._request)
            return reply


def _authenticate(head: Head, *, using: str) -> Scope | None:
    if not head.endpoint.roles:
        return None
    scope = authenticate(head.authorization, using=using)
    scope.require(*head.endpoint.roles)
    return scope


def _read_query(head: Head) -> dict[str, str]:
    if len(head.query) > QUERY_BYTES:
        raise InvalidInput(f"query: at most {QUERY_BYTES} characters are accepted.")
    try:
        pairs = parse_qsl(head.query, keep_blank_values=True, strict_parsing=bool(head.query), errors="strict")
    except ValueError as error:
        raise InvalidInput(f"query: it cannot be read: {error}.") from None
    query = dict(pairs)
    if len(query) != len(pairs):
        raise InvalidInput("query: a parameter stands twice.")
    for name, value in query.items():
        if name not in head.endpoint.query:
            raise InvalidInput(f"query: {name[:40]!r} is unknown; {head.endpoint.name} takes {_listed(head)}.")
        if "\0" in value:
            raise InvalidInput(f"query: {name} holds a NUL.")
    return query


def _listed(head: Head) -> str:
    return ", ".join(head.endpoint.query) or "none"


def _read_body(head: Head, body: bytes) -> Any:
    kind = head.endpoint.body
    if kind is None:
        if body:
            raise InvalidInput(f"{head.endpoint.name} takes no body.")
        return None
    if not body:
        raise InvalidInput(f"{head.endpoint.name} needs a body.")
    if head.content_type.partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "A body must be application/json.")
    document = strict_json.loads(body, what="The body", limit=head.endpoint.body_bytes, depth=DEPTH)
    return wire.read(kind, document, "body")


#: What sessions serve never changes, so it is read once: tenant, namespace and queues.
_sessions: OrderedDict[tuple[str, UUID], tuple[str, str, frozenset[str]]] = OrderedDict()


def _check_session(request: Request) -> None:
    """Refuse a session outside the token's scope, as if there were none. Raises NotFound."""
    scope, key = request.caller, (request.using, request.named)
    known = _sessions.get(key)
    if known is None:
        rows = WorkerSession.objects.using(request.using).filter(pk=request.named)
        row = rows.values_list("tenant", "namespace", "queues").first()
        if row is not None:
            known = _sessions[key] = row[0], row[1], frozenset(row[2])
            if len(_sessions) > SESSIONS_MAX:
                _sessions.popitem(last=False)
    is_own = known is not None and known[:2] == (scope.tenant, scope.namespace)
    # A session without queues serves all of them.
    if known is None or not is_own or (scope.queues and not (known[2] and known[2] <= scope.queues)):
        raise NotFound(f"Worker session {request.named} does not exist in the token's scope; open one.")


HEADERS = {
    401: (("WWW-Authenticate", "Bearer"),),
    429: (("Retry-After", "1"),),
    503: (("Retry-After", "1"),),
}


def explain(error: BaseException) -> Reply:
    """Return the reply that tells an error; what was not foreseen is logged, and told without detail."""
    if isinstance(error, Refused):
        headers = tuple((name.replace("_", "-"), value) for name, value in error.headers.items())
        code, title = {404: "not_found", 408: "unavailable"}.get(error.status, "invalid_input"), "Refused."
        return _problem(code, error.status, title, str(error), headers)
    if isinstance(error, LedgenceError):
        problem = problem_of(error)
        return _problem(problem.code, problem.status, problem.title, str(error), HEADERS.get(problem.status, ()))
    logger.error("request failed", exc_info=error)
    return _problem("unavailable", 503, "The service failed.", "The service failed; its log says more.", ())


def _problem(code: str, status: int, title: str, detail: str, headers: tuple[tuple[str, str], ...]) -> Reply:
    document = {
        "type": f"urn:ledgence:problem:{code}",
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
    }
    body = wire.encode_value(document)
    return Reply(status=status, body=body, headers=(("Content-Type", MEDIA_TYPE), *headers))


def finish(reply: Reply, request_id: str) -> Reply:
    """Add the headers that every reply carries."""
    has_type = any(name == "Content-Type" for name, _ in reply.headers)
    own = () if has_type else (("Content-Type", "application/json"),)
    common = (("Request-Id", request_id), ("Cache-Control", "no-store"), ("Content-Length", str(len(reply.body))))
    return replace(reply, headers=(*own, *reply.headers, *common))


def request_id_of(headers: Mapping[str, str]) -> str:
    """Return the caller's own id of the request, if it is a plain one, or a new one."""
    given = headers.get("request-id", "")
    return given if re.fullmatch("[A-Za-z0-9._-]{1,64}", given) else str(uuid4())
