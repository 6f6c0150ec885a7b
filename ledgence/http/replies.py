"""How a reply is finished, and how an error becomes one: typed, and without what the caller need not know."""

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid4

from django.db import Error

from ledgence.http.endpoint import Reply
from ledgence_worker import wire
from ledgence_worker.errors import InvalidInput, LedgenceError, Unavailable
from ledgence_worker.problems import BY_CODE, MEDIA_TYPE, Problem, problem_of

logger = logging.getLogger("ledgence.http")

type Headers = tuple[tuple[str, str], ...]

HEADERS: dict[int, Headers] = {
    401: (("WWW-Authenticate", "Bearer"),),
    408: (("Retry-After", "1"),),
    429: (("Retry-After", "1"),),
    503: (("Retry-After", "1"),),
}
#: The codes of statuses that a request is refused with before it is read.
CODES = {404: "not_found", 408: "unavailable"}
#: What a driver says of a failed connection or statement names hosts, users and values: it stays in the log.
FAILED = "The database did not answer; whether the request was carried out is unknown. The service's log says more."
NOT_TAKEN = "The request holds a value that the database does not take."


class Refused(LedgenceError):
    """A request that is refused before it reaches a handler, with a status of its own."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status, self.headers = status, headers


def explain(error: Exception, *, request_id: str, method: str, path: str) -> Reply:
    """Return the reply that tells an error. What was not foreseen is logged under the request's id, and not told."""
    if isinstance(error, Refused):
        headers = tuple((name.replace("_", "-"), value) for name, value in error.headers.items())
        return _problem(BY_CODE[CODES.get(error.status, "invalid_input")], str(error), error.status, headers)
    problem = problem_of(error)
    if problem is None:
        logger.error("request failed request_id=%s method=%s path=%s", request_id, method, ascii(path), exc_info=error)
        return _problem(BY_CODE["unavailable"], "The service failed; its log says more under this Request-Id.")
    if _is_of_database(error):
        logger.warning(
            "database failed request_id=%s method=%s path=%s error=%s", request_id, method, ascii(path), error
        )
    return _problem(problem, detail_of(error))


def detail_of(error: Exception) -> str:
    """Say what an error says, but for what the database said."""
    if not _is_of_database(error):
        return str(error)
    return FAILED if isinstance(error, Unavailable) else NOT_TAKEN


def _is_of_database(error: Exception) -> bool:
    return isinstance(error.__cause__, Error) and isinstance(error, Unavailable | InvalidInput)


def _problem(problem: Problem, detail: str, status: int | None = None, own: Headers = ()) -> Reply:
    status = status or problem.status
    document = {
        "type": f"urn:ledgence:problem:{problem.code}",
        "title": problem.title,
        "status": status,
        "detail": detail,
        "code": problem.code,
    }
    headers = (("Content-Type", MEDIA_TYPE), *HEADERS.get(status, ()), *own)
    return Reply(status=status, body=wire.encode_value(document), headers=headers)


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
