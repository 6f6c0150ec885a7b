"""The process pool: runs attempts in managed processes and tells the end of each, once and confirmed."""

import contextlib
import math
import signal
import socket
import time
from typing import Final
from uuid import UUID

from ledgence_worker.environment import allowed_environment
from ledgence_worker.errors import BootstrapFailed
from ledgence_worker.failures import own_report
from ledgence_worker.fleet import Fleet
from ledgence_worker.linux import resident_bytes
from ledgence_worker.messages import EndKind
from ledgence_worker.pool import Ended, StopReason
from ledgence_worker.pool_settings import PoolSettings
from ledgence_worker.protocol import Assignment, CatalogueEntry, Outcome, Report
from ledgence_worker.slot import Slot, State

_MEMORY_CHECK_SECONDS: Final = 1.0


class ProcessPool:
    """Implements pool.Pool with one launcher and up to ``concurrency`` processes. See PoolSettings for the options.

    start() and poll() raise LauncherLost once the launcher is gone; poll() returns the ends of all attempts before.
    """

    def __init__(self, settings: PoolSettings) -> None:
        self._settings = settings
        self._stop_seconds = settings.kill_after_seconds
        environment = allowed_environment(settings.env_allow) | dict(settings.environment)
        self._fleet = Fleet(settings, environment, self)
        self._running: dict[tuple[UUID, int], Slot] = {}
        #: Warm slots, and starting ones that no attempt has taken; the last one is taken first.
        self._available: list[Slot] = []
        self._ended: list[Ended] = []
        self._was_woken = False
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)

    def open(self) -> tuple[CatalogueEntry, ...]:
        """Start the launcher and the first process, and return the catalogue that it reports.

        Raises BootstrapFailed with what the process raised and printed.
        """
        fleet = self._fleet
        fleet.open()
        fleet.watch(self._wake_receiver, self._on_wake)
        slot = fleet.spawn()
        self._available.append(slot)
        while fleet.catalogue is None and slot.number in fleet.slots and fleet.failure is None:
            fleet.turn(math.inf)
        if fleet.catalogue is None:
            self.close()
            raise fleet.failure or BootstrapFailed(fleet.restarts.reason)
        return fleet.catalogue

    @property
    def free(self) -> int:
        """How many more attempts could be started now; while starts fail, only as many as processes are ready."""
        fleet = self._fleet
        if fleet.restarts.is_paused:
            return len(self._available)
        return self._settings.concurrency - len(fleet.slots) + len(self._available)

    def start(self, assignment: Assignment, *, deadline: float | None) -> None:
        """Run an attempt in a warm or new process; its deadline counts while the process loads the programs too."""
        if self.free < 1:
            raise RuntimeError(f"No slot is free for task {assignment.task_id}: call start() only while free > 0.")
        try:
            slot = self._available.pop() if self._available else self._fleet.spawn()
        except OSError as error:
            self._fleet.restarts.fail(f"A process could not be started: {error}")
            self._ended.append(_not_started(assignment, error))
            return
        slot.assignment, slot.deadline = assignment, deadline
        self._running[assignment.task_id, assignment.number] = slot
        if slot.state is State.WARM:
            self._invoke(slot, assignment)
        elif deadline is not None:
            self._fleet.set_due(slot, min(deadline, slot.ready_by))

    def stop(self, task_id: UUID, number: int, reason: StopReason) -> None:
        """Stop an attempt: SIGTERM to its process group, later SIGKILL; at once if its program has not begun."""
        slot = self._running.get((task_id, number))
        if slot is None or slot.reason is not None:
            return
        if slot.state is State.STARTING:
            slot.reason = reason
            self._conclude(slot, confirmed=True)
            self._available.insert(0, slot)
            self._fleet.set_due(slot, slot.ready_by)
        elif slot.state is State.RUNNING:
            slot.reason = reason
            self._fleet.set_due(slot, time.monotonic() + self._stop_seconds)
            self._fleet.signal(slot, signal.SIGTERM)

    def shorten_stops(self, seconds: float) -> None:
        """Let at most so many seconds pass between SIGTERM and SIGKILL, from the next stop on."""
        self._stop_seconds = min(self._stop_seconds, seconds)

    def poll(self, timeout: float) -> list[Ended]:
        """Return the attempts that ended; wait for one, for a slot or for wake(), up to ``timeout`` seconds."""
        until = time.monotonic() + timeout
        while not self._ended:
            if self._fleet.failure is not None:
                raise self._fleet.failure
            self._fleet.turn(until)
            if self._was_woken or time.monotonic() >= until:
                break
        self._was_woken = False
        ended, self._ended = self._ended, []
        return ended

    def wake(self) -> None:
        """Make the current or next poll() return at once. Safe from any thread and from a signal handler."""
        # A full buffer wakes it just as well, and a closed pool has nobody to wake.
        with contextlib.suppress(OSError):
            self._wake_sender.send(b"\0")

    def close(self) -> None:
        """Kill everything that is left and wait until it is gone, or overdue."""
        fleet = self._fleet
        for slot in list(fleet.slots.values()):
            fleet.retire(slot)
        until = time.monotonic() + self._settings.confirm_seconds
        while fleet.slots and fleet.failure is None and time.monotonic() < until:
            fleet.turn(until)
        fleet.close()
        self._wake_receiver.close()
        self._wake_sender.close()

    def on_ready(self, slot: Slot) -> None:
        """Give the attempt that waits for it to a process that has loaded its programs."""
        if slot.assignment is None:
            self._rest(slot)
        else:
            self._invoke(slot, slot.assignment)

    def on_end(self, slot: Slot) -> None:
        """Tell the end of an attempt at once if its process is clean, else when the process is gone."""
        end = slot.end
        if end is None or not end.is_clean or end.kind is EndKind.STOPPED or slot.reason is not None:
            self._fleet.retire(slot)
            return
        self._conclude(slot, confirmed=True)
        if self._is_worn(slot):
            self._fleet.dismiss(slot)
        else:
            self._available.append(slot)
            self._rest(slot)

    def on_time_out(self, slot: Slot) -> None:
        """Stop the attempt whose deadline has passed."""
        if slot.assignment is not None:
            self.stop(slot.assignment.task_id, slot.assignment.number, StopReason.TIME_OUT)

    def on_idle(self, slot: Slot) -> None:
        """Let a process go that long had nothing to do. The last one stays: it starts the next attempt at once."""
        if len(self._available) > 1:
            self._fleet.dismiss(slot)
        else:
            self._rest(slot)

    def on_unavailable(self, slot: Slot) -> None:
        """Give no attempt to a process that ends."""
        if slot in self._available:
            self._available.remove(slot)

    def on_lost(self, slot: Slot, *, confirmed: bool) -> None:
        """Tell the end of the attempt whose process is gone or out of control; its slot is news for poll()."""
        self._conclude(slot, confirmed=confirmed)
        self._was_woken = True

    def _invoke(self, slot: Slot, assignment: Assignment) -> None:
        self._fleet.set_due(slot, math.inf if slot.deadline is None else slot.deadline)
        self._fleet.send(slot, slot.begin(assignment, time.monotonic()))

    def _rest(self, slot: Slot) -> None:
        slot.state = State.WARM
        idle = self._settings.idle_seconds
        self._fleet.set_due(slot, math.inf if idle is None else time.monotonic() + idle)

    def _conclude(self, slot: Slot, *, confirmed: bool) -> None:
        if slot.assignment is not None:
            self._ended.append(slot.ended(slot.assignment, confirmed=confirmed))
            del self._running[slot.assignment.task_id, slot.assignment.number]
            slot.clear()

    def _is_worn(self, slot: Slot) -> bool:
        settings = self._settings
        if settings.max_tasks_per_child is not None and slot.runs >= settings.max_tasks_per_child:
            return True
        if settings.max_rss_bytes is None or (now := time.monotonic()) < slot.memory_checked_at + _MEMORY_CHECK_SECONDS:
            return False
        slot.memory_checked_at = now
        return resident_bytes(slot.pid) > settings.max_rss_bytes

    def _on_wake(self, events: int) -> None:
        self._was_woken = True
        with contextlib.suppress(BlockingIOError):
            self._wake_receiver.recv(4096)


def _not_started(assignment: Assignment, error: OSError) -> Ended:
    return Ended(
        task_id=assignment.task_id,
        number=assignment.number,
        outcome=Outcome.INTERRUPTED,
        result=None,
        report=Report(error=own_report(error)),
        confirmed=True,
    )
