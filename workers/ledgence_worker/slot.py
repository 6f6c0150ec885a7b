"""One slot: a managed process from its start to its confirmed end, and the attempt that it runs meanwhile."""

import math
import os
import socket
import time
from enum import StrEnum
from typing import Final

from ledgence_worker import messages
from ledgence_worker.errors import ProtocolError
from ledgence_worker.event import event_bytes
from ledgence_worker.failures import own_report
from ledgence_worker.frames import Decoder, Frame, Header, encode
from ledgence_worker.messages import EndKind, EndMessage
from ledgence_worker.output import Output
from ledgence_worker.pool import Ended, StopReason
from ledgence_worker.protocol import Assignment, ErrorReport, Outcome, Report

_RECEIVE_BYTES: Final = 32 * 1024
_OWN_OUTCOMES: Final = {EndKind.SUCCEEDED: Outcome.SUCCEEDED, EndKind.FAILED: Outcome.FAILED}
_STOP_OUTCOMES: Final = {
    StopReason.TIME_OUT: Outcome.TIMED_OUT,
    StopReason.CANCEL: Outcome.CANCELLED,
    StopReason.AUTHORITY_LOST: Outcome.LOST,
    StopReason.DRAIN: Outcome.INTERRUPTED,
}


class State(StrEnum):
    """Where a slot is in its life. All states count toward the concurrency."""

    # It loads the programs.
    STARTING = "starting"
    # It waits for an attempt.
    WARM = "warm"
    # It runs an attempt.
    RUNNING = "running"
    # It was asked to end by itself, and is killed if it does not.
    LEAVING = "leaving"
    # It was killed; the launcher has not confirmed yet that nothing of it is left.
    RETIRING = "retiring"
    # That confirmation is overdue.
    QUARANTINED = "quarantined"


class Slot:
    """The facts and the wires of one process; the pool decides what happens with it."""

    def __init__(self, number: int, channel: socket.socket, output: int) -> None:
        channel.setblocking(False)
        self.number = number
        self.channel, self.output = channel, Output(output)
        self.state = State.STARTING
        self.pid = 0
        #: Whether it has loaded its programs, and until when it may take to do so.
        self.is_ready = False
        self.ready_by = math.inf
        self.output_is_watched = True
        self.due_at = math.inf
        self.runs = 0
        self.memory_checked_at = 0.0
        #: Why it is replaced, where that is not in its attempt's own end.
        self.fault: ErrorReport | None = None
        self.exit_status: int | None = None
        self._decoder = Decoder()
        self._outgoing = b""
        self.clear()

    def clear(self) -> None:
        """Forget the attempt."""
        self.assignment: Assignment | None = None
        self.deadline: float | None = None
        self.reason: StopReason | None = None
        self.end: EndMessage | None = None
        self._nonce = ""
        self._started_at = 0.0

    def begin(self, task: Assignment, now: float) -> bytes:
        """Take an attempt to run and return the frame that tells the process."""
        self.state = State.RUNNING
        self._nonce = os.urandom(8).hex()
        self._started_at = now
        self.runs += 1
        self.output.begin(task.task_id, task.number)
        remaining = None if self.deadline is None else max(0.0, self.deadline - now)
        header = messages.invocation(task, nonce=self._nonce, remaining_seconds=remaining)
        return encode(header, event_bytes(task))

    def send(self, frame: bytes = b"") -> bool:
        """Send a frame, or what is left of the last one; return whether all was sent. Raises OSError."""
        data = self._outgoing + frame if self._outgoing else frame
        try:
            self._outgoing = data[self.channel.send(data) :]
        except BlockingIOError:
            self._outgoing = data
        return not self._outgoing

    def receive(self) -> list[Frame]:
        """Read once and return the frames that are complete. Raises BlockingIOError when there is nothing yet.

        Raises EOFError at the end, and ProtocolError for nonsense.
        """
        try:
            data = self.channel.recv(_RECEIVE_BYTES)
        except ConnectionError:
            raise EOFError from None
        if not data:
            raise EOFError
        return self._decoder.feed(data)

    def read_last_words(self) -> None:
        """Take the end of the attempt if it was sent just before the process was killed, but none after nonsense."""
        try:
            while self.end is None and self.fault is None:
                for header, body in self.receive():
                    self.take_end(header, body)
        except ProtocolError as error:
            self.blame(error)
        except (BlockingIOError, EOFError):
            return

    def take_end(self, header: Header, body: bytes) -> None:
        """Take the end of the attempt. Raises ProtocolError for any other message."""
        if self.assignment is None or self.end is not None:
            raise ProtocolError("The process sent a message while it had nothing to tell.")
        self.end = messages.read_end(header, body, nonce=self._nonce)

    def blame(self, error: Exception) -> None:
        """Note why the process is replaced; the first reason counts."""
        if self.fault is None:
            self.fault = own_report(error)

    def ended(self, task: Assignment, *, confirmed: bool) -> Ended:
        """Return the end of the attempt, as far as it is known now."""
        error = self.end.error if self.end is not None else self.fault
        output = self.output.finish()
        seconds = time.monotonic() - self._started_at if self._started_at else 0.0
        # A process that told its end was killed by us afterwards, if at all: that status says nothing.
        exit_status = None if self.end is not None else self.exit_status
        return Ended(
            task_id=task.task_id,
            number=task.number,
            outcome=self._outcome(),
            result=None if self.end is None else self.end.result,
            report=Report(error=error, exit_status=exit_status, output=output, seconds=seconds),
            confirmed=confirmed,
        )

    def start_failure(self) -> str:
        """Return why the process never got ready, for people."""
        text = f"A process could not load the programs (exit status {self.exit_status})."
        if self.fault is not None:
            text += f" {': '.join((*self.fault.classes[:1], self.fault.message))}\n{self.fault.traceback}"
        output = self.output.finish()
        return f"{text.rstrip()}\nIts output:\n{output.rstrip()}" if output else text.rstrip()

    def _outcome(self) -> Outcome:
        if self.end is not None and self.end.kind in _OWN_OUTCOMES:
            return _OWN_OUTCOMES[self.end.kind]
        if self.reason is not None:
            return _STOP_OUTCOMES[self.reason]
        # A task is not to blame for a process that never got as far as its program, as after a broken deployment.
        return Outcome.CRASHED if self._nonce else Outcome.INTERRUPTED

    def close(self) -> None:
        """Close our ends of the wires."""
        self.channel.close()
        self.output.close()
