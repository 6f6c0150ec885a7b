"""What may be said about a task when it is submitted."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from ledgence_worker.programs import UNSET, Backoff, Program, Unset
from ledgence_worker.protocol import Outcome


class SubmitOptions(TypedDict, total=False):
    """The options of submit(); what is left out comes from the program, then from the settings."""

    #: Else the only version that is registered in this process.
    version: str | None
    queue: str | None
    tenant: str | None
    namespace: str | None
    #: A repeat returns the first task; other content under it is a Conflict. At most 255 bytes.
    idempotency_key: str | None
    #: To find tasks that belong together. At most 255 bytes.
    correlation_key: str | None
    #: -100 to 100, higher first.
    priority: int
    #: An aware moment; none before now.
    run_after: datetime | None
    #: Counting the first.
    max_attempts: int | Unset
    #: Seconds of each attempt; None is unlimited.
    timeout: float | None | Unset
    backoff: Backoff | Unset
    #: Outcomes, and exception classes or their dotted names.
    retry_on: Sequence[Outcome | type[BaseException] | str] | Unset
    #: The W3C trace context that the attempts continue.
    traceparent: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """One task for submit_many(): a program, its data, and the options of SubmitOptions."""

    program: Program[Any] | str
    data: Any = None
    version: str | None = None
    queue: str | None = None
    tenant: str | None = None
    namespace: str | None = None
    idempotency_key: str | None = None
    correlation_key: str | None = None
    priority: int = 0
    run_after: datetime | None = None
    max_attempts: int | Unset = UNSET
    timeout: float | None | Unset = UNSET
    backoff: Backoff | Unset = UNSET
    retry_on: Sequence[Outcome | type[BaseException] | str] | Unset = UNSET
    traceparent: str | None = None

    @property
    def terms(self) -> tuple[Any, ...]:
        """Everything but data and keys: tasks with equal terms are validated once."""
        return (
            self.program,
            self.version,
            self.queue,
            self.tenant,
            self.namespace,
            self.priority,
            self.run_after,
            self.max_attempts,
            self.timeout,
            self.backoff,
            self.retry_on if isinstance(self.retry_on, Unset) else tuple(self.retry_on),
        )
