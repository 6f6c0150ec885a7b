"""One request being answered: authenticated, read strictly, and given to its handler."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

from ledgence.http.endpoint import Reply, Request, SessionUse, Topic, Wait
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
        self._endpoint = head.endpoint
        self._request: Request | None = None
        self.head = head
        #: Which threads it belongs to; None: the caller's.
        self.lane = head.endpoint.lane
        #: What it may wait for, once it is read.
        self.wait: Wait | None = None

    def admit(self) -> Scope | None:
        """Check the token and the kind of body, before a large one is taken.

        Raises Unauthenticated, Forbidden, Unavailable, Refused.
        """
        scope = None
        if self._endpoint.roles:
            with self._service.calling("http"):
                scope = authenticate(self.head.authorization, using=self._service.using)
            scope.require(*self._endpoint.roles)
        kind = self.head.content_type.partition(";")[0].strip().lower()
        if self._endpoint.body is not None and kind != "application/json":
            raise Refused(415, "A body must be application/json.")
        return scope

    def read(self, body: bytes) -> None:
        """Authenticate and read the request. Raises LedgenceError."""
        scope = self.admit()
        self._request = request = Request(
            service=self._service,
            scope=scope,
            id=self.head.id,
            query=_read_query(self.head),
            body=_read_body(self.head, body),
        )
        if self._endpoint.session is not None:
            with self._service.calling("http"):
                check_session(request, may_be_new=self._endpoint.session is SessionUse.NEW)
        if self._endpoint.wait is not None:
            self.wait = self._endpoint.wait(request)

    def begin(self) -> Reply | None:
        """Try for the first time; None where it is to wait. Raises LedgenceError."""
        if self.wait is not None and self.wait.topic is Topic.WORK:
            # Its turn to look comes when the hints before it are counted.
            return None
        return self.try_once(is_last=self.wait is None)

    def try_once(self, *, is_last: bool, held_seconds: float = 0.0) -> Reply | None:
        """Run the handler; None while there is nothing to tell and the request may wait. Raises LedgenceError."""
        request = self._read_request
        request.is_last, request.held_seconds = is_last, held_seconds
        if self.lane is None:
            return self._endpoint.handler(request)
        with self._service.calling("http"):
            reply = self._endpoint.handler(request)
            if self._endpoint.session is SessionUse.NEW:
                # Somebody else may have opened it in the same moment.
                check_session(request)
        return reply

    def answer(self) -> Reply:
        """Run the handler of a request that does not wait. Raises LedgenceError."""
        reply = self.try_once(is_last=True)
        if reply is None:
            raise RuntimeError(f"{self._endpoint.name} has no reply and may not wait.")
        return reply

    def ended(self) -> Iterable[UUID]:
        """Return the tasks that it may have ended."""
        return self._endpoint.ends(self._read_request) if self._endpoint.ends is not None else ()

    @property
    def _read_request(self) -> Request:
        if self._request is None:
            raise RuntimeError("A call is tried before it is read.")
        return self._request


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
