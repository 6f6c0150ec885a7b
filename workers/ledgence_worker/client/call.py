"""What a call is before anything is sent: a request to the task service, and how its answer is read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ledgence_worker.errors import Unavailable
from ledgence_worker.http_connection import Answer
from ledgence_worker.http_replies import read_answer
from ledgence_worker.http_socket import SLOWEST
from ledgence_worker.limits import JSON_DEPTH

#: More than any reply: a result of 8 MiB that as text in JSON may take six times that.
REPLY_BYTES: Final = 64 * 1024 * 1024
#: A result or a report may be 64 deep, inside a reply.
REPLY_DEPTH: Final = JSON_DEPTH + 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent, and sent again unchanged when it is unknown what became of it."""

    method: str
    #: Below /ledgence/v1, with its query.
    path: str
    body: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call[T]:
    """A request, and how its answer is read: ``read`` raises the error that the answer tells, and Unavailable."""

    request: Request
    read: Callable[[Answer], T]
    #: How long the service was asked to wait before it answers.
    wait_seconds: float = 0.0
    #: What a caller needs in order to send the same command again after all.
    identity: str | None = None

    @property
    def body_seconds(self) -> float:
        """What the request's size may take beside its deadline."""
        return len(self.request.body or b"") / SLOWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Page[T]:
    """Some items of a list, and the call for those after them."""

    items: tuple[T, ...]
    next: "Call[Page[T]] | None"


def read_as[T](kind: type[T], *, statuses: tuple[int, ...] = (200,)) -> Callable[[Answer], T]:
    """Return what reads a type of the replies."""

    def read(answer: Answer) -> T:
        value: T = read_answer(answer, kind, statuses=statuses, limit=REPLY_BYTES, depth=REPLY_DEPTH)
        return value

    return read


def expect(is_so: bool, what: str) -> None:
    """Go on only if a reply is what was asked for. Raises Unavailable."""
    if not is_so:
        raise Unavailable(f"The reply is not about what was asked ({what}), so what it did is unknown.")
