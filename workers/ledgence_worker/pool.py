"""The port between the worker's loop and its managed processes. Implemented by processes.ProcessPool."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from ledgence_worker.protocol import Assignment, CatalogueEntry, Outcome, Report


class StopReason(StrEnum):
    """Why a running attempt is stopped before its program ends."""

    # Its execution time is over: the attempt ends timed_out.
    TIME_OUT = "time_out"
    # An operator or caller asked for it: the attempt ends cancelled.
    CANCEL = "cancel"
    # The lease may be over: stop the program; its end is reported all the same (kept as late evidence).
    AUTHORITY_LOST = "authority_lost"
    # The worker drains and its grace is over: the attempt is given back.
    DRAIN = "drain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """One attempt's end. ``confirmed``: no process of it is left, so its slot is free and it may be given back."""

    task_id: UUID
    number: int
    outcome: Outcome
    result: str | None
    report: Report
    confirmed: bool


class Pool(Protocol):
    """At most ``concurrency`` processes, each running one attempt at a time.

    All methods but wake() belong to one thread.
    """

    def open(self) -> tuple[CatalogueEntry, ...]:
        """Start the first process and return the catalogue that it reports. Raises BootstrapFailed with its output."""
        ...

    @property
    def free(self) -> int:
        """How many more attempts could be started now: concurrency - running - retiring - quarantined."""
        ...

    def start(self, assignment: Assignment, *, deadline: float | None) -> None:
        """Run an attempt in a warm or new process. ``deadline``: time.monotonic() at which it times out, or None."""
        ...

    def stop(self, task_id: UUID, number: int, reason: StopReason) -> None:
        """SIGTERM to the attempt's process group, SIGKILL a few seconds later. The first reason counts."""
        ...

    def shorten_stops(self, seconds: float) -> None:
        """Let at most so many seconds pass between SIGTERM and SIGKILL, from the next stop on."""
        ...

    def poll(self, timeout: float) -> list[Ended]:
        """Move bytes, keep deadlines, and return what ended.

        Waits up to ``timeout`` seconds for an end, for a slot that becomes free, or for wake().
        """
        ...

    def wake(self) -> None:
        """Make the current or next poll() return at once. Safe from any thread and from a signal handler."""
        ...

    def close(self) -> None:
        """Kill and confirm everything that is left."""
        ...
