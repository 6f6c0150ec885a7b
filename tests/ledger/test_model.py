"""The operations against a model of them, driven by hypothesis on a clock that stands still.

The model is what the design says, in plain Python: no SQL, no locks. Every owner tuple that was ever given out is kept
and presented again; time moves to a microsecond before, to and after each moment that matters; every command may be
sent twice, as after a lost reply. After each step the rows must be the model's, and the audit clean.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ledgence.operations.cancel import cancel
from ledgence.operations.expire import expire
from ledgence.operations.operate import force_expire, requeue
from ledgence.operations.renew import renew
from ledgence.operations.settle import settle
from ledgence_worker.programs import Backoff
from ledgence_worker.protocol import Outcome, Owner
from tests.ledger.actors import USING, Worker, assert_audit_clean, execute, operator, settlement_of, submit_task
from tests.ledger.frozen import MICROSECOND, FrozenClock

LEASE, CLEANUP = timedelta(seconds=60), timedelta(seconds=30)
BACKOFF = Backoff(initial_seconds=10, factor=2, maximum_seconds=30, jitter=0)
RETRIED = {Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.LOST}


@dataclass
class Attempt:
    number: int
    cause: str
    session: int | None = None
    token: UUID | None = None
    authorized_at: datetime | None = None
    outcome: str | None = None
    consequence: str | None = None
    settlement: tuple[Outcome, str] | None = None
    late: str | None = None

    def row(self) -> tuple[Any, ...]:
        grant = (self.number, self.cause, self.token, self.authorized_at)
        return (*grant, self.outcome, self.consequence, self.settlement is not None, self.late)


@dataclass
class Intent:
    generation: int
    cause: str
    charged: int
    available_at: datetime


@dataclass
class Lease:
    attempt: Attempt
    charged: int
    expires_at: datetime
    bound_at: datetime | None
    is_cancelled: bool = False


@dataclass
class Task:
    id: UUID
    max_attempts: int
    timeout: int | None
    priority: int
    intent: Intent | None
    lease: Lease | None = None
    outcome: str | None = None
    revision: int = 0
    attempts: list[Attempt] = field(default_factory=list)

    def claim(self, now: datetime, session: int, token: UUID, *, authorize: bool) -> None:
        assert self.intent is not None
        attempt = Attempt(self.intent.generation, self.intent.cause, session, token, now if authorize else None)
        bound_at = None if self.timeout is None else now + timedelta(seconds=self.timeout) + CLEANUP
        self.attempts.append(attempt)
        self.lease = Lease(attempt, self.intent.charged, earliest(now + LEASE, bound_at), bound_at)
        self.intent = None

    def end(self, now: datetime, outcome: Outcome) -> str:
        """End the attempt that holds the lease, and return the consequence."""
        assert self.lease is not None
        lease, self.lease = self.lease, None
        lease.attempt.outcome = outcome
        charged = lease.charged + (outcome is not Outcome.INTERRUPTED)
        again: datetime | None = None
        if lease.is_cancelled:
            self.outcome = "cancelled"
        elif outcome is Outcome.SUCCEEDED:
            self.outcome = "succeeded"
        elif outcome is Outcome.INTERRUPTED:
            again = now
        elif outcome in RETRIED and charged < self.max_attempts:
            again = now + timedelta(seconds=min(30, 10 * 2**lease.charged))
        else:
            self.outcome = "failed"
        if again is None:
            self.revision += 1
        else:
            self.intent = Intent(lease.attempt.number + 1, outcome, charged, again)
        lease.attempt.consequence = self.outcome or "retry"
        return lease.attempt.consequence

    def row(self) -> tuple[Any, ...]:
        """Return what row_of() reads."""
        intent, lease = self.intent, self.lease
        return (
            self.outcome,
            self.revision,
            intent and (intent.generation, intent.cause, intent.charged, intent.available_at),
            lease and (lease.attempt.number, lease.charged, lease.expires_at, lease.bound_at, lease.is_cancelled),
            [attempt.row() for attempt in self.attempts],
        )


def earliest(moment: datetime, bound: datetime | None) -> datetime:
    return moment if bound is None else min(moment, bound)


def rows() -> dict[UUID, tuple[Any, ...]]:
    """Read everything that the model knows, by task."""
    attempts: dict[UUID, list[tuple[Any, ...]]] = {}
    for task, *attempt in execute(
        "select task_id, number, cause, token, authorized_at, outcome, consequence, settlement is not null, "
        "late_outcome from ledgence_attempt order by task_id, number"
    ):
        attempts.setdefault(task, []).append(tuple(attempt))
    return {
        row[0]: (*row[1:3], row[3:7] if row[3] else None, row[7:] if row[7] else None, attempts.get(row[0], []))
        for row in execute(
            "select t.id, outcome, revision, i.generation, i.cause, i.charged, i.available_at, l.number, l.charged, "
            "l.expires_at, l.bound_at, l.cancel_requested_at is not null from ledgence_task t "
            "left join ledgence_deliveryintent i on i.task_id = t.id left join ledgence_lease l on l.task_id = t.id"
        )
    }


PICK = st.integers(min_value=0, max_value=999)
OFFSETS = st.sampled_from([-1, 0, 1])
SESSIONS = st.sampled_from([0, 1])


class LedgerMachine(RuleBasedStateMachine):
    """Drives two workers, an operator, a housekeeper and the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: dict[UUID, Task] = {}
        #: Every owner tuple ever given out, with the session that it was given to.
        self.owners: list[tuple[int, Owner]] = []
        self.block = transaction.atomic(using=USING)
        self.block.__enter__()
        self.clock = FrozenClock()
        self.workers = (Worker(), Worker())
        #: What each session's last command that consumed a sequence was given.
        self.recorded: dict[int, list[Owner]] = {}

    def teardown(self) -> None:
        self.clock.thaw()
        transaction.set_rollback(True, using=USING)
        self.block.__exit__(None, None, None)

    @property
    def now(self) -> datetime:
        now: datetime = self.clock.now
        return now

    def task(self, pick: int) -> Task:
        return list(self.tasks.values())[pick % len(self.tasks)]

    def some(self, picks: list[int]) -> list[Task]:
        return list({task.id: task for task in map(self.task, picks)}.values())

    def owner(self, pick: int) -> tuple[int, Owner]:
        return self.owners[pick % len(self.owners)]

    def lease_of(self, session: int, owner: Owner) -> Lease | None:
        """Return the live lease that exactly this owner holds."""
        lease = self.tasks[owner.task_id].lease
        if lease is None or lease.expires_at <= self.now:
            return None
        held = lease.attempt
        return lease if (held.session, held.number, held.token) == (session, owner.number, owner.token) else None

    @staticmethod
    def send(command: Callable[[], Any], *, lost: bool) -> Any:
        """Send a command; after a lost reply once more, for the same answer."""
        answer = command()
        if lost:
            assert command() == answer
        return answer

    def give(self, session: int, owners: list[Owner]) -> None:
        self.owners += [(session, owner) for owner in owners]
        self.recorded[session] = owners

    @initialize()
    def first_task(self) -> None:
        self.submit(2, 30, 0, 0)

    @rule(
        max_attempts=st.integers(1, 3),
        timeout=st.sampled_from([None, 5, 30, 300]),
        priority=st.sampled_from([0, 0, 5]),
        later=st.sampled_from([0, 0, 20]),
    )
    def submit(self, max_attempts: int, timeout: int | None, priority: int, later: int) -> None:
        available_at = self.now + timedelta(seconds=later)
        made = submit_task(
            max_attempts=max_attempts,
            timeout=timeout,
            priority=priority,
            run_after=available_at,
            backoff=BACKOFF,
            retry_on=tuple(RETRIED),
        )
        intent = Intent(1, "submitted", 0, available_at)
        self.tasks[made] = Task(made, max_attempts, timeout, priority, intent)

    @rule(session=SESSIONS, capacity=st.integers(1, 3), lost=st.booleans())
    def acquire(self, session: int, capacity: int, lost: bool) -> None:
        worker = self.workers[session]
        due = [task for task in self.tasks.values() if task.intent and task.intent.available_at <= self.now]
        due.sort(key=lambda task: (-task.priority, task.intent and task.intent.available_at, task.id))
        sequence = worker.sequence + 1
        reply = self.send(lambda: worker.send(sequence, capacity), lost=lost)
        worker.sequence = sequence
        assert [a.task_id for a in reply.assignments] == [task.id for task in due[:capacity]]
        for task, assignment in zip(due, reply.assignments, strict=False):
            task.claim(self.now, session, assignment.token, authorize=True)
            assert assignment.number == task.attempts[-1].number
            assert [e.number for e in assignment.earlier] == [a.number for a in task.attempts[:-1]]
            assert assignment.timeout_seconds == task.timeout
        self.give(session, [a.owner for a in reply.assignments])

    @precondition(lambda self: self.recorded)
    @rule(session=SESSIONS)
    def repeat(self, session: int) -> None:
        """Send a session's last command again, long after: what is live comes with what is left, the rest as lost."""
        worker = self.workers[session]
        if session not in self.recorded:
            return
        reply = worker.send(worker.sequence, 3)
        assert reply is not None
        live = {owner: self.lease_of(session, owner) for owner in self.recorded[session]}
        assert [a.owner for a in reply.assignments] == [owner for owner, lease in live.items() if lease]
        assert reply.lost == tuple((o.task_id, o.number) for o, lease in live.items() if not lease)
        for assignment, lease in zip(reply.assignments, filter(None, live.values()), strict=True):
            assert assignment.remaining_seconds == pytest.approx((lease.expires_at - self.now).total_seconds())

    @rule(session=SESSIONS, pick=PICK, step=st.sampled_from([-1, 0, 0, 0, 1]), lost=st.booleans())
    def claim(self, session: int, pick: int, step: int, lost: bool) -> None:
        task, worker = self.task(pick), self.workers[session]
        current = task.intent.generation if task.intent else task.attempts[-1].number
        generation = max(1, current + step)
        sequence = worker.sequence + 1
        reply = worker.claim((task.id, generation), sequence=sequence)
        [answer] = reply.answers
        assert answer.status == self.claim_status(task, generation)
        worker.sequence = sequence
        if answer.status != "claimed":
            self.recorded[session] = []
            return
        [assignment] = reply.assignments
        task.claim(self.now, session, assignment.token, authorize=False)
        if lost:
            again = worker.claim((task.id, generation), sequence=sequence)
            assert (again.answers, again.assignments) == (reply.answers, reply.assignments)
        self.give(session, [assignment.owner])

    def claim_status(self, task: Task, generation: int) -> str:
        if task.intent and task.intent.generation == generation:
            return "claimed" if task.intent.available_at <= self.now else "deferred"
        if task.lease and task.lease.attempt.number == generation:
            return "already_handed_off"
        if task.outcome or generation <= len(task.attempts):
            return "terminal_or_superseded"
        return "not_found"

    @precondition(lambda self: self.owners)
    @rule(pick=PICK, lost=st.booleans())
    def authorize(self, pick: int, lost: bool) -> None:
        session, owner = self.owner(pick)
        answer = self.send(lambda: self.workers[session].authorize(owner), lost=lost)
        lease, task = self.lease_of(session, owner), self.tasks[owner.task_id]
        if lease is None or lease.is_cancelled:
            assert not answer.is_granted
            return
        started_at = lease.attempt.authorized_at or self.now
        deadline = None if task.timeout is None else started_at + timedelta(seconds=task.timeout)
        assert answer.is_granted == (deadline is None or deadline > self.now)
        if not answer.is_granted:
            return
        lease.attempt.authorized_at = started_at
        lease.bound_at = deadline and deadline + CLEANUP
        left = deadline and (deadline - self.now).total_seconds()
        assert answer.timeout_seconds == (None if left is None else pytest.approx(left))

    @precondition(lambda self: self.owners)
    @rule(picks=st.lists(PICK, min_size=1, max_size=4), lost=st.booleans())
    def renew(self, picks: list[int], lost: bool) -> None:
        session = self.owner(picks[0])[0]
        owners = list(dict.fromkeys(o for s, o in map(self.owner, picks) if s == session))
        answers = self.send(lambda: renew(self.workers[session].session_id, owners, using=USING), lost=lost)
        for owner, answer in zip(owners, answers, strict=True):
            lease = self.lease_of(session, owner)
            if lease is None:
                assert answer.status == "ownership_lost"
                continue
            lease.expires_at = max(lease.expires_at, earliest(self.now + LEASE, lease.bound_at))
            assert (answer.status, answer.cancel_requested) == ("renewed", lease.is_cancelled)
            assert answer.remaining_seconds == pytest.approx((lease.expires_at - self.now).total_seconds())

    @precondition(lambda self: self.owners)
    @rule(
        picks=st.lists(PICK, min_size=1, max_size=3),
        outcome=st.sampled_from(
            [Outcome.SUCCEEDED, Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.FAILED, Outcome.INTERRUPTED]
        ),
        variant=st.sampled_from(["1", "1", "2"]),
        stranger=st.sampled_from([False, False, False, True]),
        lost=st.booleans(),
    )
    def settle(self, picks: list[int], outcome: Outcome, variant: str, stranger: bool, lost: bool) -> None:
        session = self.owner(picks[0])[0]
        owners = list(dict.fromkeys(o for s, o in map(self.owner, picks) if s == session))
        presenting = 1 - session if stranger else session
        batch = [settlement_of(owner, outcome, result=variant, output=variant) for owner in owners]
        answers = self.send(lambda: settle(self.workers[presenting].session_id, batch, using=USING), lost=lost)
        for owner, answer in zip(owners, answers, strict=True):
            expected = ("not_found", "") if stranger else self.expect_settled(session, owner, (outcome, variant))
            assert (answer.status, answer.consequence) == expected

    def expect_settled(self, session: int, owner: Owner, content: tuple[Outcome, str]) -> tuple[str, str]:
        task = self.tasks[owner.task_id]
        attempt = task.attempts[owner.number - 1]
        if attempt.settlement is not None:
            return ("accepted", attempt.consequence or "") if attempt.settlement == content else ("conflict", "")
        if self.lease_of(session, owner) is None:
            attempt.late = attempt.late or content[0]
            return "ownership_lost", ""
        attempt.settlement = content
        return "accepted", task.end(self.now, content[0])

    @rule(page=st.sampled_from([1, 2, 200]), lost=st.booleans())
    def expire(self, page: int, lost: bool) -> None:
        over = [task for task in self.tasks.values() if task.lease and task.lease.expires_at <= self.now]
        assert expire(using=USING, page=page) == len(over)
        for task in over:
            task.end(self.now, Outcome.LOST)
        if lost:
            assert expire(using=USING, page=page) == 0

    @rule(picks=st.lists(PICK, min_size=1, max_size=3), lost=st.booleans())
    def cancel(self, picks: list[int], lost: bool) -> None:
        wanted = self.some(picks)
        answers = cancel([task.id for task in wanted], using=USING)
        for task in wanted:
            if task.intent:
                expected = "cancelled"
                attempt = Attempt(task.intent.generation, task.intent.cause, outcome="cancelled")
                attempt.consequence = task.outcome = "cancelled"
                task.attempts.append(attempt)
                task.intent = None
                task.revision += 1
            elif task.lease:
                expected, lease = "requested", task.lease
                lease.is_cancelled = True
                lease.bound_at = earliest(self.now + CLEANUP, lease.bound_at)
                lease.expires_at = min(lease.expires_at, self.now + CLEANUP)
            else:
                expected = "terminal"
            assert answers[task.id] == expected
        if lost:
            again = cancel([task.id for task in wanted], using=USING)
            assert set(again.values()) <= {"requested", "terminal"}

    @rule(pick=PICK, step=st.sampled_from([-1, 0, 0, 0, 1]), lost=st.booleans())
    def requeue(self, pick: int, step: int, lost: bool) -> None:
        task, by = self.task(pick), operator()
        seen = max(0, task.revision + step)
        answers = self.send(lambda: requeue({task.id: seen}, by, using=USING), lost=lost)
        if seen != task.revision:
            expected = "moved_on"
        elif task.outcome in ("failed", "cancelled"):
            expected = "requeued"
            task.outcome = None
            task.revision += 1
            task.intent = Intent(len(task.attempts) + 1, "requeued", 0, self.now)
        else:
            expected = "not_terminal" if task.outcome is None else "succeeded"
        assert answers == {str(task.id): expected}

    @rule(pick=PICK, step=st.sampled_from([-1, 0, 0, 1]), lost=st.booleans())
    def force_expire(self, pick: int, step: int, lost: bool) -> None:
        task, by = self.task(pick), operator()
        number = len(task.attempts) + step
        answers = self.send(lambda: force_expire({task.id: max(number, 0)}, by, using=USING), lost=lost)
        if task.lease is None:
            expected = "not_active"
        elif task.lease.attempt.number == number:
            expected = "expired"
            task.end(self.now, Outcome.LOST)
        else:
            expected = "moved_on"
        assert answers == {str(task.id): expected}

    @rule(pick=PICK, offset=OFFSETS)
    def advance_to_a_moment_that_matters(self, pick: int, offset: int) -> None:
        moments = [self.now]
        for task in self.tasks.values():
            if task.lease:
                moments.append(task.lease.expires_at)
                if task.timeout and task.lease.attempt.authorized_at:
                    moments.append(task.lease.attempt.authorized_at + timedelta(seconds=task.timeout))
            if task.intent:
                moments.append(task.intent.available_at)
        ahead = [moment for moment in moments if moment >= self.now]
        self.clock.set(max(self.now, ahead[pick % len(ahead)] + offset * MICROSECOND))

    @rule(seconds=st.sampled_from([1, 10, 25, 61]))
    def advance(self, seconds: int) -> None:
        self.clock.advance(seconds=seconds)

    @precondition(lambda self: self.owners)
    @rule(pick=PICK)
    def forge(self, pick: int) -> None:
        """Present an owner tuple with one part exchanged: nothing knows it."""
        session, owner = self.owner(pick)
        worker = self.workers[session]
        forged = Owner(task_id=owner.task_id, number=owner.number, token=uuid4())
        assert worker.settle(forged).status == "not_found"
        assert worker.renew(forged).status == "ownership_lost"
        assert not worker.authorize(forged).is_granted

    @invariant()
    def the_rows_are_the_models(self) -> None:
        assert rows() == {task.id: task.row() for task in self.tasks.values()}

    @invariant()
    def the_audit_is_clean(self) -> None:
        assert_audit_clean()


def run_machine(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        LedgerMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_every_answer_and_every_row_is_the_models(frozen_schema: None, db: None):
    run_machine(examples=15, steps=40)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_answer_and_every_row_is_the_models_for_long(frozen_schema: None, db: None):
    run_machine(examples=75, steps=100)
