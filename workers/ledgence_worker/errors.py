"""Errors of the task service: the same classes on every transport, one for each thing that a caller can do about it."""

from typing import Final
from uuid import UUID


class LedgenceError(Exception):
    """Base of all errors of Ledgence. Do not raise it directly."""


class InvalidInput(LedgenceError):
    """The request can never succeed as it is; nothing was written. Correct it before you send it again."""


class NotFound(LedgenceError):
    """The named task, attempt, session or queue does not exist, or does not belong to the caller."""


class Conflict(LedgenceError):
    """The same identity was used before with other content; what was recorded first stands.

    ``task_id`` is the task under an idempotency key that was used before; None over HTTP, where it may be another's.
    """

    def __init__(self, text: str, *, task_id: UUID | None = None) -> None:
        super().__init__(text)
        self.task_id = task_id


class Unauthenticated(LedgenceError):
    """The request carries no valid token: missing, malformed, unknown, expired or revoked; nothing was done."""


class Forbidden(LedgenceError):
    """The token is valid, but its roles or its queues do not allow this; nothing was done."""


class OwnershipLost(LedgenceError):
    """The attempt's lease is over, or belongs to another owner: stop the work, its result is refused."""


class OutOfOrder(LedgenceError):
    """A channel's command has a sequence that is neither the last one nor the next one."""


class Busy(LedgenceError):
    """Another transaction holds a row that is needed; nothing was decided. Send the same command again."""


class SessionExpired(LedgenceError):
    """The worker session is closed or over and is never revived: open a new one."""


class ExternalDispatchRequired(LedgenceError):
    """The queue hands out its work through a broker; integrated acquisition is refused."""


class Unavailable(LedgenceError):
    """Whether the command was carried out is unknown. Send the same command again, unchanged."""


class BrokerUnavailable(LedgenceError):
    """The broker did not answer, or throttles; nothing of the call was done. Repeat it later."""


class BrokerRefused(LedgenceError):
    """The broker, or how it is configured, does not allow this, and repeating it is in vain; the text says why."""


#: With these, nothing that a worker session asks for is granted any more.
SESSION_REFUSALS: Final = (SessionExpired, NotFound, Unauthenticated, Forbidden)


class TaskFailed(LedgenceError):
    """The task ended without a result. ``outcome`` is "failed" or "cancelled"."""

    def __init__(self, task_id: UUID, outcome: str, detail: str) -> None:
        self.task_id, self.outcome = task_id, outcome
        super().__init__(f"Task {task_id} {outcome}{detail}")


class NotFinished(LedgenceError):
    """The task is not terminal yet: wait for it, or ask again later."""


class InvalidResult(LedgenceError):
    """A program returned something that is not strict JSON within the limits. Final: the attempt ends failed."""


class ProtocolError(LedgenceError):
    """A managed process broke the rules of its private channel; it is replaced, and its attempt ends crashed."""


class BootstrapFailed(LedgenceError):
    """A managed process could not load the programs. The text holds what it raised and printed."""


class LauncherLost(LedgenceError):
    """The launcher, parent of all managed processes, is gone: nothing can be started or confirmed. End the worker."""
