"""What the threads of one worker share."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ledgence_worker.clock import Clock
from ledgence_worker.ends import End
from ledgence_worker.errors import SESSION_REFUSALS, LedgenceError
from ledgence_worker.inbox import Inbox
from ledgence_worker.lease import LeaseKeeper
from ledgence_worker.protocol import Session
from ledgence_worker.settings import WorkerSettings
from ledgence_worker.slots import SlotCounts
from ledgence_worker.stopping import ExitCode, Stopping
from ledgence_worker.task_service import TaskService

logger = logging.getLogger("ledgence_worker.shared")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The parts that are safe to use from every thread, for one session."""

    settings: WorkerSettings
    service: TaskService
    session: Session
    slots: SlotCounts
    keeper: LeaseKeeper
    inbox: Inbox
    stopping: Stopping
    clock: Clock
    #: The queues whose work this worker takes from their brokers.
    consumed: frozenset[str] = frozenset()

    def refused(self, thread: str, error: LedgenceError) -> None:
        """Drain, since the task service gives this session no more work."""
        logger.error("task service gives no more work thread=%s error=%s", thread, error)
        if isinstance(error, SESSION_REFUSALS):
            # What runs may go on as long as its authority lasts, which is not longer than a lease.
            self.stopping.request("session refused", ExitCode.FAILED, grace_seconds=self.session.lease_seconds)
        else:
            self.stopping.request(f"{thread} refused", ExitCode.CONFIGURATION)

    def drain(self) -> None:
        """Drain, since an operator asked for it: as after a signal. Safe from any thread, however often it is told."""
        if not self.stopping.is_requested:
            logger.info("task service asks the worker to drain session=%s", self.session.session_id)
            self.stopping.request("asked to drain")

    def abandon(self, ends: Sequence[End], reason: str) -> None:
        """Let go of attempts whose end cannot be told: their leases expire, and the worker does not end clean."""
        for end in ends:
            logger.error("attempt left to expire task=%s attempt=%s reason=%s", *end.authority.key, reason)
        self.keeper.forget(end.authority for end in ends)
        freed = sum(end.is_confirmed for end in ends)
        self.slots.exchange(freed=freed, stuck=len(ends) - freed)
        self.stopping.worsen(ExitCode.FORCED)
        self.inbox.wake()
