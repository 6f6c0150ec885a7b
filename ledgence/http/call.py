"""One request being answered: authenticated, read strictly, and given to its handler."""

from typing import Any
from urllib.parse import parse_qsl

from ledgence.http.endpoint import Reply, Request, Topic
from ledgence.http.replies import Refused
from ledgence.http.routing import Head
from ledgence.http.sessions import check_session
from ledgence.service import DatabaseTaskService
from ledgence.tokens import Scope, authenticate
from ledgence_worker import limits, strict_json, wire
from ledgence_worker.errors import InvalidInput

#: A task's data may be 64 deep, inside a batch inside the body.
DEPTH = limits.JSON_DEPTH + 4
QUERY_BYTES = 4096


class Call:
    """One request being answered. Its methods touch the database, and belong to one thread at a time."""

    def __init__(self, service: DatabaseTaskService, head: Head) -> None:
        self._service = service
        self._head = head
        self._request: Request | None = None

    def admit(self) -> Scope | None:
        """Check the token and the kind of body, before a large one is taken.

        Raises Unauthenticated, Forbidden, Unavailable, Refused.
        """
        endpoint, scope = self._head.endpoint, None
        if endpoint.roles:
            with self._service.calling("http"):
                scope = authenticate(self._head.authorization, using=self._service.using)
            scope.require(*endpoint.roles)
        kind = self._head.content_type.partition(";")[0].strip().lower()
        if endpoint.body is not None and kind != "application/json":
            raise Refused(415, "A body must be application/json.")
        return scope

    def read(self, body: bytes) -> tuple[float, Topic | None]:
        """Authenticate and read the request; return how long it may wait, and for what. Raises LedgenceError."""
        head = self._head
        scope = self.admit()
        self._request = request = Request(
            service=self._service,
            scope=scope,
            id=head.id,
            query=_read_query(head),
            body=_read_body(head, body),
        )
        if head.endpoint.path.startswith("sessions/"):
            with self._service.calling("http"):
                check_session(request, may_be_new=head.endpoint.name == "open_session")
        return (0.0, None) if head.endpoint.wait is None else head.endpoint.wait(request)

    def attempt(self, *, is_last: bool) -> Reply | None:
        """Run the handler; None while there is nothing to tell and the request may wait. Raises LedgenceError."""
        if self._request is None:
            raise RuntimeError("A call is attempted before it is read.")
        self._request.is_last = is_last
        if self._head.endpoint.lane is None:
            return self._head.endpoint.handler(self._request)
        with self._service.calling("http"):
            reply = self._head.endpoint.handler(self._request)
            if self._head.endpoint.name == "open_session":
                # Somebody else may have opened it in the same moment.
                check_session(self._request)
        return reply

    def answer(self) -> Reply:
        """Run the handler of a request that does not wait. Raises LedgenceError."""
        reply = self.attempt(is_last=True)
        if reply is None:
            raise RuntimeError(f"{self._head.endpoint.name} has no reply and may not wait.")
        return reply


def _read_query(head: Head) -> dict[str, Any]:
    if len(head.query) > QUERY_BYTES:
        raise InvalidInput(f"query: at most {QUERY_BYTES} characters are accepted.")
    try:
        # What is not ASCII is percent-encoded; of anything else nobody knows how.
        head.query.encode("ascii")
        pairs = parse_qsl(head.query, keep_blank_values=True, strict_parsing=bool(head.query), errors="strict")
    except ValueError:
        raise InvalidInput("query: it must be names and values, percent-encoded UTF-8.") from None
    query = dict(pairs)
    if len(query) != len(pairs):
        raise InvalidInput("query: a parameter stands twice.")
    known = head.endpoint.query
    for name in query:
        if name not in known:
            raise InvalidInput(
                f"query: {name[:40]!r} is unknown; {head.endpoint.name} takes {', '.join(known) or 'none'}."
            )
    return {name: known[name].read(value, f"query: {name}") for name, value in query.items()}


def _read_body(head: Head, body: bytes) -> Any:
    kind = head.endpoint.body
    if kind is None:
        return None
    if not body:
        raise InvalidInput(f"{head.endpoint.name} needs a body.")
    document = strict_json.loads(body, what="The body", limit=head.endpoint.body_bytes, depth=DEPTH)
    return wire.read(kind, document, "body")
