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
from ledgence_worker.problems import MEDIA_TYPE, PROBLEMS

logger = logging.getLogger("ledgence.http")

HEADERS = {
    401: (("WWW-Authenticate", "Bearer"),),
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


def explain(error: BaseException) -> Reply:
    """Return the reply that tells an error; what was not foreseen is logged, and told without detail."""
    if isinstance(error, Refused):
        headers = tuple((name.replace("_", "-"), value) for name, value in error.headers.items())
        return _problem(CODES.get(error.status, "invalid_input"), error.status, "Refused.", str(error), headers)
    problem = next((problem for problem in PROBLEMS if isinstance(error, problem.error)), None)
    if problem is None:
        logger.error("request failed", exc_info=error)
        return _problem(
            "unavailable", 503, "The service failed.", "The service failed; its log says more.", HEADERS[503]
        )
    return _problem(problem.code, problem.status, problem.title, detail_of(error), HEADERS.get(problem.status, ()))


def detail_of(error: BaseException) -> str:
    """Say what an error says, but for what the database said."""
    if not isinstance(error.__cause__, Error) or not isinstance(error, Unavailable | InvalidInput):
        return str(error)
    logger.info("database failed error=%s", error)
    return FAILED if isinstance(error, Unavailable) else NOT_TAKEN


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
