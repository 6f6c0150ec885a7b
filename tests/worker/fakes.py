"""Doubles of the worker's ports: a task service and a pool in memory, and a clock that tests move by hand."""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any
from uuid import UUID, uuid4

from ledgence_worker.claims import Claim, ClaimAnswer, Claimed, ClaimStatus, RefusedMessage
from ledgence_worker.clock import Clock
from ledgence_worker.errors import OutOfOrder, Unavailable
from ledgence_worker.inbox import Inbox
from ledgence_worker.lease import LeaseKeeper
from ledgence_worker.pool import Ended, StopReason
from ledgence_worker.protocol import (
    Acquire,
    Acquired,
    Assignment,
    CatalogueEntry,
    ExternalQueue,
    OpenSession,
    Outcome,
    Owner,
    Renewal,
    RenewStatus,
    Report,
    Session,
    Settled,
    Settlement,
    SettleStatus,
)
from ledgence_worker.settings import WorkerSettings
from ledgence_worker.shared import Shared
from ledgence_worker.slots import SlotCounts
from ledgence_worker.stopping import Stopping

DEADLINE_SECONDS = 10.0
type Key = tuple[UUID, int]


class FakeClock:
    """Stands still until a test advances it; pauses return at once and are remembered."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.pauses.append(seconds)
        return event.wait(0.001)


def make_settings(**changes: object) -> WorkerSettings:
    values: dict[str, object] = {"name": "w", "concurrency": 4, "tenant": "t", "namespace": "n"} | changes
    return WorkerSettings(**values)  # type: ignore[arg-type]


def make_assignment(
    *, number: int = 1, remaining: float = 60.0, timeout: float | None = 300.0, queue: str = "default"
) -> Assignment:
    return Assignment(
        task_id=uuid4(),
        number=number,
        token=uuid4(),
        cause="first",
        tenant="default",
        namespace="default",
        queue=queue,
        program="p",
        version="1",
        data="{}",
        claimed_at=datetime.now(UTC),
        remaining_seconds=remaining,
        timeout_seconds=timeout,
    )


class LostReply(Exception):
    """As a fault: the command is carried out, and its reply is lost."""


@dataclass
class FakeTaskService:
    """Keeps the rules that a worker can see: replay by sequence, ownership, one command in flight per channel."""

    lease_seconds: float = 60.0
    session_seconds: float = 86_400.0
    due: deque[Assignment] = field(default_factory=deque)
    live: dict[Key, Assignment] = field(default_factory=dict)
    settled: dict[Key, Settlement] = field(default_factory=dict)
    released: list[Key] = field(default_factory=list)
    renewed: list[list[Key]] = field(default_factory=list)
    commands: list[Acquire] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    #: What claims are answered that are not decided by ``due`` and what became of it.
    claim_statuses: dict[Key, ClaimStatus] = field(default_factory=dict)
    quarantined: list[tuple[str, RefusedMessage]] = field(default_factory=list)
    #: Errors that the next calls of a method meet, by its name.
    faults: dict[str, deque[Exception]] = field(default_factory=lambda: defaultdict(deque))
    #: Attempts that another transaction has locked.
    locked: set[Key] = field(default_factory=set)
    cancelled: set[Key] = field(default_factory=set)
    lost: set[Key] = field(default_factory=set)
    is_down: bool = False
    is_interrupted: bool = False
    is_closed: bool = False
    is_session_closed: bool = False
    largest_live: int = 0
    extensions: int = 0
    held_seconds: float = 0.0
    external_queues: tuple[str, ...] = ()
    is_draining: bool = False
    before_acquire: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.changed = threading.Condition()
        self._recorded: dict[int, tuple[int, Acquired]] = {}
        self._claimed: dict[int, tuple[int, Claimed]] = {}
        self._in_flight: set[int] = set()
        self.opened: OpenSession | None = None

    # Any: whatever make_assignment() takes.
    def submit(self, count: int, **kind: Any) -> list[Assignment]:
        made = [make_assignment(**kind) for _ in range(count)]
        with self.changed:
            self.due.extend(made)
            self.changed.notify_all()
        return made

    def wait_until(self, question: Callable[[], object], what: str) -> None:
        with self.changed:
            if not self.changed.wait_for(question, DEADLINE_SECONDS):
                raise AssertionError(
                    f"{what} did not come about; live={len(self.live)} due={len(self.due)} settled={len(self.settled)} "
                    f"released={len(self.released)} commands={len(self.commands)}"
                )

    def open_session(self, command: OpenSession) -> Session:
        self._meet("open_session")
        self.opened = command
        return self._session(command.session_id)

    def extend_session(self, session_id: UUID) -> Session:
        self._meet("extend_session")
        self.extensions += 1
        return self._session(session_id)

    def close_session(self, session_id: UUID) -> None:
        self._meet("close_session")
        self.is_session_closed = True

    def acquire(self, command: Acquire) -> Acquired:
        with self.changed:
            self.commands.append(command)
            self.changed.notify_all()
            self.before_acquire()
            assert command.channel not in self._in_flight, "two commands in flight on one channel"
            self._in_flight.add(command.channel)
            try:
                lost = self._meet("acquire")
                reply = self._acquire(command)
            finally:
                self._in_flight.discard(command.channel)
            if lost:
                raise Unavailable("reply lost")
            return reply

    def _acquire(self, command: Acquire) -> Acquired:
        settled = tuple(self._settle(settlement) for settlement in command.settlements)
        last, recorded = self._recorded.get(command.channel, (0, Acquired()))
        if command.sequence == last:
            keys = {(a.task_id, a.number): a for a in recorded.assignments}
            return Acquired(
                assignments=tuple(a for key, a in keys.items() if key in self.live),
                lost=tuple(key for key in keys if key not in self.live),
                settled=settled,
            )
        if command.sequence != last + 1:
            raise OutOfOrder(f"sequence {command.sequence} after {last}")
        if not command.settlements:
            self.changed.wait_for(
                lambda: self._acquirable(1) or self.is_interrupted or self.is_draining, command.wait_seconds
            )
        taken = tuple(self._acquirable(command.capacity))
        for assignment in taken:
            self.due.remove(assignment)
            self.live[assignment.task_id, assignment.number] = assignment
        self.largest_live = max(self.largest_live, len(self.live))
        reply = Acquired(
            assignments=taken,
            settled=settled,
            held_seconds=self.held_seconds,
            drain_requested=self.is_draining,
        )
        self._recorded[command.channel] = (command.sequence, reply)
        self.changed.notify_all()
        return reply

    def _acquirable(self, count: int) -> list[Assignment]:
        count = 0 if self.is_draining else count
        return list(islice((a for a in self.due if a.queue not in self.external_queues), count))

    def claim(self, command: Claim) -> Claimed:
        """Hand out those of the due assignments that are named."""
        with self.changed:
            self.claims.append(command)
            self.changed.notify_all()
            assert command.channel not in self._in_flight, "two commands in flight on one channel"
            self._in_flight.add(command.channel)
            try:
                lost = self._meet("claim")
                reply = self._claim(command)
            finally:
                self._in_flight.discard(command.channel)
            if lost:
                raise Unavailable("reply lost")
            return reply

    def _claim(self, command: Claim) -> Claimed:
        last, recorded = self._claimed.get(command.channel, (0, Claimed(answers=())))
        if command.sequence == last:
            keys = {(a.task_id, a.number): a for a in recorded.assignments}
            lost = tuple(key for key in keys if key not in self.live)
            return replace(
                recorded,
                answers=tuple(
                    replace(answer, status=ClaimStatus.TERMINAL_OR_SUPERSEDED)
                    if (answer.task_id, answer.generation) in lost
                    else answer
                    for answer in recorded.answers
                ),
                assignments=tuple(a for key, a in keys.items() if key in self.live),
                lost=lost,
            )
        if command.sequence != last + 1:
            raise OutOfOrder(f"sequence {command.sequence} after {last}")
        taken = []
        answers = []
        for dispatch in command.dispatches:
            key = (dispatch.task_id, dispatch.generation)
            status = self.claim_statuses.get(key)
            if status is None:
                assignment = next((a for a in self.due if (a.task_id, a.number) == key), None)
                status = ClaimStatus.CLAIMED if assignment else ClaimStatus.NOT_FOUND
                if assignment:
                    self.due.remove(assignment)
                    self.live[key] = assignment
                    taken.append(assignment)
                elif key in self.live:
                    status = ClaimStatus.ALREADY_HANDED_OFF
                elif key in self.settled:
                    status = ClaimStatus.TERMINAL_OR_SUPERSEDED
            answers.append(ClaimAnswer(task_id=key[0], generation=key[1], status=status))
        self.largest_live = max(self.largest_live, len(self.live))
        reply = Claimed(answers=tuple(answers), assignments=tuple(taken), drain_requested=self.is_draining)
        self._claimed[command.channel] = (command.sequence, reply)
        self.changed.notify_all()
        return reply

    def quarantine(self, session_id: UUID, queue: str, messages: Sequence[RefusedMessage]) -> None:
        with self.changed:
            lost = self._meet("quarantine")
            self.quarantined.extend((queue, message) for message in messages)
            self.changed.notify_all()
            if lost:
                raise Unavailable("reply lost")

    def settle(self, session_id: UUID, settlements: Sequence[Settlement]) -> list[Settled]:
        with self.changed:
            lost = self._meet("settle")
            answers = [self._settle(settlement) for settlement in settlements]
            if lost:
                raise Unavailable("reply lost")
            return answers

    def _settle(self, settlement: Settlement) -> Settled:
        key = (settlement.task_id, settlement.number)
        if key in self.locked:
            status = SettleStatus.BUSY
        elif key in self.settled:
            status = SettleStatus.ACCEPTED if self.settled[key] == settlement else SettleStatus.CONFLICT
        elif key in self.live and key not in self.lost:
            del self.live[key]
            self.settled[key] = settlement
            status = SettleStatus.ACCEPTED
        else:
            self.live.pop(key, None)
            status = SettleStatus.OWNERSHIP_LOST
        self.changed.notify_all()
        return Settled(task_id=key[0], number=key[1], status=status)

    def release(self, session_id: UUID, owners: Sequence[Owner]) -> list[Settled]:
        with self.changed:
            self._meet("release")
            for owner in owners:
                self.live.pop((owner.task_id, owner.number), None)
                self.released.append((owner.task_id, owner.number))
            self.changed.notify_all()
            return [Settled(task_id=o.task_id, number=o.number, status=SettleStatus.ACCEPTED) for o in owners]

    def renew(self, session_id: UUID, owners: Sequence[Owner]) -> list[Renewal]:
        with self.changed:
            self._meet("renew")
            keys = [(owner.task_id, owner.number) for owner in owners]
            self.renewed.append(keys)
            self.changed.notify_all()
            return [self._renew(key) for key in keys]

    def _renew(self, key: Key) -> Renewal:
        if key in self.locked:
            return Renewal(task_id=key[0], number=key[1], status=RenewStatus.BUSY)
        if key in self.lost or key not in self.live:
            return Renewal(task_id=key[0], number=key[1], status=RenewStatus.OWNERSHIP_LOST)
        return Renewal(
            task_id=key[0],
            number=key[1],
            status=RenewStatus.RENEWED,
            remaining_seconds=self.lease_seconds,
            cancel_requested=key in self.cancelled,
        )

    def is_drained(self, session_id: UUID) -> bool:
        self._meet("is_drained")
        with self.changed:
            return not self.due and not self.live

    def drain(self) -> None:
        """Let an operator ask the worker to drain."""
        with self.changed:
            self.is_draining = True
            self.changed.notify_all()

    def interrupt(self) -> None:
        with self.changed:
            self.is_interrupted = True
            self.changed.notify_all()

    def close(self) -> None:
        self.is_closed = True

    def _session(self, session_id: UUID) -> Session:
        return Session(
            session_id=session_id,
            tenant="default",
            namespace="default",
            lease_seconds=self.lease_seconds,
            cleanup_seconds=30.0,
            remaining_seconds=self.session_seconds,
            external_queues=tuple(ExternalQueue(name=name, destination="memory") for name in self.external_queues),
            drain_requested=self.is_draining,
        )

    def _meet(self, method: str) -> bool:
        """Raise the fault that waits for this call; return whether its reply is to be lost instead."""
        if self.is_down:
            raise Unavailable("the database is down")
        if not self.faults[method]:
            return False
        fault = self.faults[method].popleft()
        if isinstance(fault, LostReply):
            return True
        raise fault


def succeed(assignment: Assignment) -> Ended:
    return end_of(assignment, Outcome.SUCCEEDED, result="null")


def end_of(assignment: Assignment, outcome: Outcome, *, result: str | None = None, confirmed: bool = True) -> Ended:
    return Ended(
        task_id=assignment.task_id,
        number=assignment.number,
        outcome=outcome,
        result=result,
        report=Report(),
        confirmed=confirmed,
    )


class FakePool:
    """Runs nothing: attempts end when the test says so, or at once by ``program``; stopped ones end by their reason."""

    OUTCOMES = {
        StopReason.TIME_OUT: Outcome.TIMED_OUT,
        StopReason.CANCEL: Outcome.CANCELLED,
        StopReason.AUTHORITY_LOST: Outcome.LOST,
        StopReason.DRAIN: Outcome.INTERRUPTED,
    }

    def __init__(self, concurrency: int = 4, program: Callable[[Assignment], Ended] | None = None) -> None:
        self.concurrency = concurrency
        self.program = program
        self.changed = threading.Condition()
        self.running: dict[Key, Assignment] = {}
        self.started: list[Key] = []
        self.deadlines: dict[Key, float | None] = {}
        self.stops: list[tuple[Key, StopReason]] = []
        self.confirms_stops = True
        self.retiring = 0
        self.stop_seconds: float | None = None
        self.is_open = False
        self.is_closed = False
        self.on_close: Callable[[], None] = lambda: None
        self.failure: Exception | None = None
        self.catalogue: tuple[CatalogueEntry, ...] = (CatalogueEntry(name="p", version="1", entry_point="m:f"),)
        self._ended: list[Ended] = []
        # Its put() may interrupt itself, so that a signal handler can wake poll().
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def open(self) -> tuple[CatalogueEntry, ...]:
        if self.failure:
            raise self.failure
        with self.changed:
            self.is_open = True
            self.changed.notify_all()
        return self.catalogue

    @property
    def free(self) -> int:
        return self.concurrency - len(self.running) - self.retiring

    def start(self, assignment: Assignment, *, deadline: float | None) -> None:
        key = (assignment.task_id, assignment.number)
        with self.changed:
            assert self.free > 0, "more attempts than processes"
            assert key not in self.started, "an attempt was started twice"
            self.running[key] = assignment
            self.started.append(key)
            self.deadlines[key] = deadline
            if self.program:
                self._end(self.program(assignment))
            self.changed.notify_all()

    def shorten_stops(self, seconds: float) -> None:
        self.stop_seconds = seconds

    def stop(self, task_id: UUID, number: int, reason: StopReason) -> None:
        with self.changed:
            self.stops.append(((task_id, number), reason))
            assignment = self.running[task_id, number]
            self._end(end_of(assignment, self.OUTCOMES[reason], confirmed=self.confirms_stops))
            self.changed.notify_all()

    def finish(self, assignment: Assignment) -> None:
        """End a running attempt well; from any thread."""
        with self.changed:
            self._end(succeed(assignment))
            self.changed.notify_all()

    def fail(self, error: Exception) -> None:
        """Make poll() raise."""
        with self.changed:
            self.failure = error
        self.wake()

    def poll(self, timeout: float) -> list[Ended]:
        with suppress(Empty):
            self._wakes.get(timeout=timeout)
        with suppress(Empty):
            while True:
                self._wakes.get_nowait()
        with self.changed:
            if self.failure:
                raise self.failure
            taken, self._ended = self._ended, []
            return taken

    def wake(self) -> None:
        self._wakes.put(None)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.on_close()

    def wait_until(self, question: Callable[[], object], what: str) -> None:
        with self.changed:
            if not self.changed.wait_for(question, DEADLINE_SECONDS):
                raise AssertionError(f"{what} did not come about; running={len(self.running)} stops={self.stops}")

    def _end(self, ended: Ended) -> None:
        del self.running[ended.task_id, ended.number]
        self.retiring += 0 if ended.confirmed else 1
        self._ended.append(ended)
        self.wake()


def wait_for(question: Callable[[], object], what: str) -> None:
    """Poll until the answer is yes, for what no condition tells."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (answer := question()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come about; last answer {answer!r}")
        threading.Event().wait(0.002)


def make_shared(
    service: FakeTaskService,
    clock: Clock,
    *,
    wake: Callable[[], None] = lambda: None,
    **settings: object,
) -> Shared:
    made = make_settings(**settings)
    inbox = Inbox(wake)
    session = Session(
        session_id=uuid4(),
        tenant="default",
        namespace="default",
        lease_seconds=service.lease_seconds,
        cleanup_seconds=30.0,
        remaining_seconds=service.session_seconds,
    )
    return Shared(
        settings=made,
        service=service,
        session=session,
        slots=SlotCounts(made.concurrency),
        keeper=LeaseKeeper(service.lease_seconds, inbox, clock),
        inbox=inbox,
        stopping=Stopping(made.grace_seconds, clock, wake),
        clock=clock,
    )
