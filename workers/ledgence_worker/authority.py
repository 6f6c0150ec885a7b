"""One attempt as this worker holds it: the assignment, and until when it may run here."""

from dataclasses import dataclass
from uuid import UUID

from ledgence_worker.protocol import Assignment

type AttemptKey = tuple[UUID, int]


@dataclass(slots=True, eq=False)
class Authority:
    """The local authority over one attempt. Only the lease keeper changes it, under its lock. Times are monotonic."""

    assignment: Assignment
    #: (task, number): what names the attempt everywhere in the worker.
    key: AttemptKey
    #: When user code must have been stopped, unless a renewal comes first.
    ends_at: float
    #: When the program's time is over, or None.
    times_out_at: float | None
    #: It ended once, and is never revived.
    is_over: bool = False
    #: The task service told that a cancel was requested.
    is_cancelled: bool = False
