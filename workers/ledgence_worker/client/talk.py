"""How a call becomes an answer: sent, and sent again when it is unknown what became of it. Nothing here does I/O.

Each generator yields what to send next, is given what came back, and returns the value or raises the error. So the two
clients differ only in how they send and how they pause.
"""

import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from uuid import UUID

from ledgence_worker.client import commands
from ledgence_worker.client.call import Call, Request
from ledgence_worker.client.results import value_of
from ledgence_worker.errors import Busy, NotFinished, Unavailable
from ledgence_worker.http_connection import Answer
from ledgence_worker.limits import WAIT_SECONDS_MAX, check_range
from ledgence_worker.patience import note_outage, note_recovery

#: The pauses before a repeat: each about twice the one before, with jitter so that clients do not return in step.
PAUSE_SECONDS: Final = (0.1, 2.0)
#: How often wait() asks at most, where the service does not wait as long as it was asked to.
POLL_SECONDS: Final = 0.5
TIMEOUT_MAX: Final = 86_400.0 * 366


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """One try: pause, then send the request and take its whole answer within ``seconds``."""

    request: Request
    pause_seconds: float
    seconds: float


type Talk[T] = Generator[Sending, Answer | Unavailable, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How long and how often a client tries. ``timeout``: seconds of a whole call, repeats and pauses included."""

    timeout: float
    tries: int
    clock: Callable[[], float] = field(default=time.monotonic)

    def __post_init__(self) -> None:
        check_range("timeout", self.timeout, 0.001, TIMEOUT_MAX)
        check_range("tries", self.tries, 1, 1000)


class Pauses:
    """The pauses between the tries of one command."""

    def __init__(self) -> None:
        self._next = PAUSE_SECONDS[0]

    def after(self, answer: Answer | Unavailable) -> float:
        """Return the next pause: never shorter than the service asked for."""
        asked = 0.0 if isinstance(answer, Unavailable) else retry_after_seconds(answer.retry_after)
        pause = self._next * random.uniform(0.5, 1.0)  # noqa: S311 - jitter is no secret
        self._next = min(PAUSE_SECONDS[1], self._next * 2)
        return asked + pause


def converse[T](call: Call[T], manner: Manner) -> Talk[T]:
    """Send a call until it has an answer: at most ``manner.tries`` times, each with half of the time that is left.

    Raises the error that the answer tells; Unavailable and Busy only when tries or time are used up.
    """
    began = manner.clock()
    deadline = began + manner.timeout + call.wait_seconds + call.body_seconds
    pauses, pause = Pauses(), 0.0
    number = 1
    while True:
        # What is left for the service to answer in, when nothing goes wrong with wait and body.
        left = max(0.0, deadline - manner.clock() - pause - call.wait_seconds - call.body_seconds)
        seconds = call.wait_seconds + (left if number == manner.tries else left / 2)
        answer = yield Sending(request=call.request, pause_seconds=pause, seconds=seconds)
        try:
            value = _read(call, answer)
        except (Busy, Unavailable) as error:
            note_outage(_named(call), number, error)
            pause = pauses.after(answer)
            if number == manner.tries or manner.clock() + pause + call.wait_seconds >= deadline:
                _explain(error, call, number, manner.clock() - began)
                raise
        else:
            if number > 1:
                note_recovery(_named(call), number)
            return value
        number += 1


# Any: whatever JSON the program returned.
def wait_for_end(task_id: UUID | str, timeout: float, manner: Manner, *, raw: bool) -> Talk[Any]:
    """Ask for a task's result until it has one or ``timeout`` seconds have passed, whatever happens on the way.

    Raises TaskFailed; NotFinished after the time-out, and the last doubt if how the task stands is then unknown.
    """
    check_range("timeout", timeout, 0.0, TIMEOUT_MAX)
    deadline = manner.clock() + timeout
    pauses, pause = Pauses(), 0.0
    number = 1
    while True:
        began = manner.clock() + pause
        call = commands.result(task_id, raw=raw, wait_seconds=min(WAIT_SECONDS_MAX, max(0.0, deadline - began)))
        seconds = call.wait_seconds + manner.timeout / 2
        answer = yield Sending(request=call.request, pause_seconds=pause, seconds=seconds)
        try:
            task = _read(call, answer)
        except (Busy, Unavailable) as error:
            note_outage(_named(call), number, error)
            pause = pauses.after(answer)
            number += 1
            if manner.clock() + pause >= deadline:
                _explain(error, call, number - 1, timeout)
                raise
            continue
        now = manner.clock()
        try:
            return value_of(task)
        except NotFinished:
            if now >= deadline:
                raise NotFinished(f"Task {task.id} is {task.state} after {timeout:g} s; wait() again.") from None
        pauses, number = Pauses(), 1
        pause = min(deadline - now, max(0.0, began + POLL_SECONDS * random.uniform(0.8, 1.0) - now))  # noqa: S311


def _read[T](call: Call[T], answer: Answer | Unavailable) -> T:
    if isinstance(answer, Unavailable):
        raise answer
    return call.read(answer)


def _named[T](call: Call[T]) -> str:
    # Without the query: what people look for is not for logs.
    return f"{call.request.method} {call.request.path.partition('?')[0]}"


def _explain[T](error: Exception, call: Call[T], number: int, seconds: float) -> None:
    error.add_note(f"{_named(call)} was sent {number} times in {seconds:.1f} s.")
    if call.identity is not None:
        error.add_note(f"Send it again with {call.identity}: it is carried out once.")


def retry_after_seconds(header: str | None) -> float:
    """Read a Retry-After header: seconds, or a date. What cannot be read asks for nothing."""
    if header is None:
        return 0.0
    if header.isascii() and header.isdigit() and len(header) <= 9:
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
