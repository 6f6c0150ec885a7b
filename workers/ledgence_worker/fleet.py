"""All managed processes of a worker: starts them, moves their bytes, keeps their times, and confirms their ends."""

import contextlib
import logging
import math
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ledgence_worker import messages
from ledgence_worker.errors import BootstrapFailed, LauncherLost, ProtocolError
from ledgence_worker.frames import Header, encode
from ledgence_worker.launching import LauncherProcess
from ledgence_worker.pool_settings import PoolSettings
from ledgence_worker.protocol import CatalogueEntry, ErrorReport
from ledgence_worker.restarts import Restarts
from ledgence_worker.slot import Slot, State

logger = logging.getLogger("ledgence_worker.fleet")

#: How long a process that closed its channel may take to exit by itself, so that its own exit status is seen.
EXIT_SECONDS: Final = 1.0


class Attendant(Protocol):
    """Who decides about the attempts, and hears what happens to the processes."""

    def on_ready(self, slot: Slot) -> None:
        """The process has loaded its programs."""

    def on_end(self, slot: Slot) -> None:
        """The process has told the end of its attempt."""

    def on_time_out(self, slot: Slot) -> None:
        """The attempt's deadline has passed."""

    def on_idle(self, slot: Slot) -> None:
        """The process has rested for as long as it may."""

    def on_unavailable(self, slot: Slot) -> None:
        """The process ends, or is being ended: it takes no further attempt."""

    def on_lost(self, slot: Slot, *, confirmed: bool) -> None:
        """The process is gone, or its end cannot be confirmed."""


class Fleet:
    """Knows every process from its start until it is confirmed gone; a retired one keeps its slot until then."""

    def __init__(self, settings: PoolSettings, environment: Mapping[str, str], attendant: Attendant) -> None:
        self.slots: dict[int, Slot] = {}
        self.catalogue: tuple[CatalogueEntry, ...] | None = None
        #: Set when the launcher is gone: nothing can be started any more.
        self.failure: LauncherLost | None = None
        self.restarts = Restarts()
        self._settings = settings
        self._attendant = attendant
        self._last_number = 0
        #: No slot is due before this: it spares a look at every slot in every turn.
        self._next_due_at = math.inf
        self._hello = encode(
            messages.hello(bootstrap=settings.bootstrap, path=sys.path, python_path=environment.get("PYTHONPATH"))
        )
        self._selector = selectors.DefaultSelector()
        self._launcher = LauncherProcess(environment)

    def open(self) -> None:
        """Start the launcher."""
        self._launcher.start()
        self.watch(self._launcher.socket, self._on_launcher)

    def watch(self, source: socket.socket | int, handler: Callable[[int], None]) -> None:
        """Call the handler in a turn in which the source is readable."""
        self._selector.register(source, selectors.EVENT_READ, handler)

    def turn(self, until: float) -> None:
        """Wait until something is ready or due, or the time has come, and handle it."""
        wait = min(until, self._next_due_at) - time.monotonic()
        for key, events in self._selector.select(max(0.0, wait) if wait != math.inf else None):
            key.data(events)
        if (now := time.monotonic()) >= self._next_due_at:
            for slot in [slot for slot in self.slots.values() if slot.due_at <= now]:
                self._on_due(slot, now)
            self._next_due_at = min((slot.due_at for slot in self.slots.values()), default=math.inf)

    def spawn(self) -> Slot:
        """Start a process. Raises OSError when the worker lacks the descriptors, and LauncherLost."""
        if self.failure is not None:
            raise self.failure
        self._last_number += 1
        slot = Slot(self._last_number, *self._launcher.spawn(self._last_number))
        self.slots[slot.number] = slot
        self.watch(slot.channel, lambda events: self._on_channel(slot, events))
        self.watch(slot.output.descriptor, lambda events: self._on_output(slot))
        slot.ready_by = time.monotonic() + self._settings.handshake_seconds
        self.set_due(slot, slot.ready_by)
        self.send(slot, self._hello)
        return slot

    def set_due(self, slot: Slot, when: float) -> None:
        """Look at the slot again at ``when`` at the latest, instead of when it was due until now."""
        slot.due_at = when
        self._next_due_at = min(self._next_due_at, when)

    def send(self, slot: Slot, frame: bytes) -> None:
        """Send a frame, now or as its process takes it; one that is dead is retired."""
        try:
            if not slot.send(frame):
                self._listen(slot, selectors.EVENT_READ | selectors.EVENT_WRITE)
        except ConnectionError:
            self._let_go(slot, EXIT_SECONDS)

    def signal(self, slot: Slot, signum: signal.Signals) -> None:
        """Signal the process's group, unless it is gone."""
        try:
            self._launcher.signal(slot.number, signum)
        except LauncherLost as error:
            self._fail(error)

    def dismiss(self, slot: Slot) -> None:
        """Let an idle process end by itself."""
        self._let_go(slot, self._settings.kill_after_seconds)
        with contextlib.suppress(OSError):
            slot.channel.shutdown(socket.SHUT_WR)

    def retire(self, slot: Slot) -> None:
        """Kill the process with all that it started; on_lost() follows when that is confirmed."""
        if slot.state in (State.RETIRING, State.QUARANTINED):
            return
        if slot.state is not State.LEAVING:
            self._part_with(slot)
        slot.state = State.RETIRING
        self.set_due(slot, time.monotonic() + self._settings.confirm_seconds)
        self.signal(slot, signal.SIGKILL)

    def close(self) -> None:
        """Close the lifeline, upon which the launcher kills whatever is left, and forget everything."""
        self._launcher.close(patience_seconds=self._settings.confirm_seconds)
        for slot in self.slots.values():
            slot.close()
        self.slots.clear()
        self._selector.close()

    def _on_channel(self, slot: Slot, events: int) -> None:
        # The launcher may have told its end in this very turn: then the channel is closed already.
        if slot.number not in self.slots or slot.state in (State.LEAVING, State.RETIRING, State.QUARANTINED):
            return
        try:
            if events & selectors.EVENT_WRITE and slot.send():
                self._listen(slot, selectors.EVENT_READ)
            if events & selectors.EVENT_READ:
                for header, body in slot.receive():
                    self._on_frame(slot, header, body)
        except BlockingIOError:
            return
        except (ConnectionError, EOFError):
            self._let_go(slot, EXIT_SECONDS)
        except ProtocolError as error:
            slot.blame(error)
            logger.error("process broke its protocol process=%s error=%s", slot.pid, error)
            self.retire(slot)

    def _on_frame(self, slot: Slot, header: Header, body: bytes) -> None:
        if slot.state is not State.STARTING:
            slot.take_end(header, body)
            self._attendant.on_end(slot)
            return
        answer = messages.read_ready(header)
        if isinstance(answer, ErrorReport):
            slot.fault = answer
            self.retire(slot)
            return
        if self.catalogue is None:
            self.catalogue = answer
        if answer != self.catalogue:
            raise ProtocolError("The process loaded other programs than this worker's first one: restart the worker.")
        self.restarts.succeed()
        slot.is_ready = True
        self._attendant.on_ready(slot)

    def _on_output(self, slot: Slot) -> None:
        if slot.number in self.slots:
            try:
                slot.output.read()
            except EOFError:
                self._selector.unregister(slot.output.descriptor)
                slot.output_is_watched = False

    def _on_due(self, slot: Slot, now: float) -> None:
        is_overdue = slot.deadline is not None and slot.deadline <= now
        if slot.state is State.WARM:
            self._attendant.on_idle(slot)
        elif slot.state is State.RETIRING:
            slot.state = State.QUARANTINED
            self.set_due(slot, math.inf)
            logger.error("process not confirmed gone, its slot is quarantined process=%s", slot.pid)
            self._attendant.on_lost(slot, confirmed=False)
        elif is_overdue and slot.reason is None and slot.state in (State.STARTING, State.RUNNING):
            self._attendant.on_time_out(slot)
        else:
            if slot.state is State.STARTING:
                slot.blame(BootstrapFailed(f"The programs did not load in {self._settings.handshake_seconds:g} s."))
            self.retire(slot)

    def _on_launcher(self, events: int) -> None:
        try:
            reports = self._launcher.receive()
        except LauncherLost as error:
            self._fail(error)
            return
        for report in reports:
            slot = self.slots[report["slot"]]
            if report["event"] == "spawned":
                slot.pid = report["pid"]
            elif report["event"] == "gone":
                slot.exit_status = report["status"]
                self._on_gone(slot)
            else:
                slot.blame(BootstrapFailed(f"The process was not started: {report['error']}"))
                self._on_gone(slot)

    def _on_gone(self, slot: Slot) -> None:
        if slot.state in (State.STARTING, State.WARM, State.RUNNING):
            self._part_with(slot)
            logger.warning("process ended process=%s exit_status=%s", slot.pid, slot.exit_status)
        if slot.assignment is not None:
            slot.read_last_words()
        self._attendant.on_lost(slot, confirmed=True)
        if not slot.is_ready:
            self.restarts.fail(slot.start_failure())
        if slot.output_is_watched:
            self._selector.unregister(slot.output.descriptor)
        slot.close()
        del self.slots[slot.number]

    def _fail(self, error: LauncherLost) -> None:
        """Kill what is known, for nobody can confirm anything any more."""
        if self.failure is not None:
            return
        self.failure = error
        logger.error("launcher lost error=%s", error)
        self._selector.unregister(self._launcher.socket)
        for slot in self.slots.values():
            if slot.pid:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(slot.pid, signal.SIGKILL)
            self._attendant.on_lost(slot, confirmed=False)

    def _listen(self, slot: Slot, events: int) -> None:
        self._selector.modify(slot.channel, events, self._selector.get_key(slot.channel).data)

    def _let_go(self, slot: Slot, seconds: float) -> None:
        self._part_with(slot)
        slot.state = State.LEAVING
        self.set_due(slot, time.monotonic() + seconds)

    def _part_with(self, slot: Slot) -> None:
        self._selector.unregister(slot.channel)
        self._attendant.on_unavailable(slot)
