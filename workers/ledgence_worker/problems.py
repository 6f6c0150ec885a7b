"""The errors of the task service over HTTP: RFC 9457 problem details, with the class of the error as their code."""

from typing import Final, NamedTuple

from ledgence_worker.errors import (
    Busy,
    Conflict,
    ExternalDispatchRequired,
    Forbidden,
    InvalidInput,
    LedgenceError,
    NotFound,
    OutOfOrder,
    OwnershipLost,
    SessionExpired,
    Unauthenticated,
    Unavailable,
)

MEDIA_TYPE: Final = "application/problem+json"


class Problem(NamedTuple):
    """How one class of errors travels. A reply counts as this error only with the code and one of the statuses."""

    code: str
    status: int
    error: type[LedgenceError]
    title: str
    #: Further statuses, for the same thing noticed before the request was read.
    also: tuple[int, ...] = ()


#: 404 is also a method or path that does not exist, 405 a method that its path does not have.
PROBLEMS: Final = (
    Problem("invalid_input", 400, InvalidInput, "The request can never succeed as it is.", (405, 413, 415)),
    Problem("unauthenticated", 401, Unauthenticated, "No valid token was presented."),
    Problem("forbidden", 403, Forbidden, "The token does not allow this."),
    Problem("not_found", 404, NotFound, "What was named does not exist, or is not yours."),
    Problem("conflict", 409, Conflict, "The same identity was used before with other content."),
    Problem("ownership_lost", 409, OwnershipLost, "The lease is over, or belongs to another owner."),
    Problem("out_of_order", 409, OutOfOrder, "The sequence is neither the channel's last nor its next one."),
    Problem("external_dispatch_required", 409, ExternalDispatchRequired, "The queue's work comes through a broker."),
    Problem("session_expired", 410, SessionExpired, "The worker session is closed or over."),
    Problem("busy", 429, Busy, "Nothing was done; send the same request again."),
    Problem("unavailable", 503, Unavailable, "Whether it was done is unknown; send the same request again.", (408,)),
)
BY_CODE: Final = {problem.code: problem for problem in PROBLEMS}


def problem_of(error: Exception) -> Problem | None:
    """Return how an error travels; None for one that never leaves its process."""
    return next((problem for problem in PROBLEMS if isinstance(error, problem.error)), None)


def error_of(status: int, document: object) -> LedgenceError:
    """Return the error that a reply tells: Unavailable for one that is not the task service's own, as a proxy's."""
    if isinstance(document, dict):
        problem = BY_CODE.get(str(document.get("code")))
        detail = document.get("detail")
        if problem and status in (problem.status, *problem.also) and isinstance(detail, str):
            return problem.error(detail)
    return Unavailable(
        f"The reply has status {status} and is not the task service's own; what it did is unknown. If this goes on, "
        "look at the server's address (scheme, host, port and path), and whether the task service is served there."
    )
