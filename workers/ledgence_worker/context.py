"""What a program may know about the attempt that it runs in, beside the event."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from ledgence_worker.protocol import EarlierAttempt


class Stopped(BaseException):
    """Raised inside a program that must stop: its time is over, it was cancelled, or its worker ends.

    Not an Exception, so that ``except Exception`` does not swallow it. Clean up in ``finally`` and let it pass:
    five seconds later, or sooner with a short lease, the process is killed. Coroutines get CancelledError instead.
    """


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The running attempt: the second argument of every program that declares one.

    ``cause`` says why this attempt exists; ``earlier`` lists the attempts before it, oldest first: a lost one may have
    had its effect. ``deadline`` is the time.monotonic() at which this attempt times out, or None.
    """

    task_id: UUID
    number: int
    cause: str = ""
    earlier: tuple[EarlierAttempt, ...] = ()
    traceparent: str | None = None
    deadline: float | None = None
    stop_requested: Callable[[], bool] = _never

    @property
    def fencing_token(self) -> tuple[UUID, int]:
        """Return (task_id, number): it grows with every attempt, so an effect can refuse an older attempt's writes."""
        return self.task_id, self.number

    def remaining(self) -> float | None:
        """Return the seconds left until the time-out, never below 0, or None when there is none."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def is_cancelled(self) -> bool:
        """Return whether the attempt was asked to stop."""
        return self.stop_requested()
