"""What goes wrong alike: failed tasks and attempts that are tried again, by queue, program, outcome and exception."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.urls import reverse

from ledgence import sql
from ledgence.admin.minutes import LATELY
from ledgence.models import Attempt

#: How many of the newest failed tasks, and of the newest attempts, are looked at for what goes wrong.
FAILED_LOOKED_AT, ATTEMPTS_LOOKED_AT = 200, 2_000
FAILED_SECONDS, NEW_SECONDS = 86_400.0, 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What went wrong alike, by queue, program, outcome and exception."""

    queue: int
    program: str
    outcome: str
    #: The exception's class; empty without one, as after a crash.
    error_class: str
    #: How many tasks failed of it, of the newest of a day.
    failed: int
    #: How many attempts of the last minutes are tried again.
    retried: int
    #: Whether no task failed of it before the last hour, as far as the day is known.
    is_new: bool
    first_at: datetime
    last_at: datetime
    #: The task to which it happened last.
    task: UUID

    @property
    def error(self) -> str:
        return self.error_class.rpartition(".")[2] or str(Attempt.Outcome(self.outcome).label)

    @property
    def address(self) -> str:
        """The page of the task to which it happened last: it explains, and shows the traceback."""
        return reverse("admin:ledgence_task_change", args=[self.task])


def find_trouble(using: str) -> list[Trouble]:
    """Return what the newest failed tasks died of, and the attempts that were tried again lately, the most first."""
    terms: dict[str, Any] = {
        "failed_limit": FAILED_LOOKED_AT,
        "failed_seconds": FAILED_SECONDS,
        "new_seconds": NEW_SECONDS,
        "retried_limit": ATTEMPTS_LOOKED_AT,
        "retried_seconds": LATELY.total_seconds(),
    }
    names = Trouble.__dataclass_fields__
    return [Trouble(**dict(zip(names, row, strict=True))) for row in sql.run("describe_trouble", using, terms)]
