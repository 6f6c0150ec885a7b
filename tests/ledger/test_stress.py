"""Sixteen connections that do everything to the same tasks at once, and break off in the middle: nothing gives way."""

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connections

from ledgence.models import Attempt, Lease, Task
from ledgence.operations.cancel import cancel
from ledgence.operations.expire import expire
from ledgence.operations.operate import force_expire, republish, requeue, requeue_as_copy
from ledgence.operations.renew import renew
from ledgence.operations.settle import release, settle
from ledgence.transitions import sqlstate
from ledgence.worker_connections import WorkerConnections
from ledgence_worker.errors import Busy
from ledgence_worker.protocol import Assignment, Outcome, Settled, SettleStatus
from tests.ledger.actors import (
    USING,
    Worker,
    assert_audit_clean,
    execute,
    expire_leases,
    make_due,
    operator,
    settlement_of,
    submit_tasks,
)

THREADS = 16
TASKS = 40
SECONDS = 40.0
ROUNDS = 400
OUTCOMES = [Outcome.SUCCEEDED, Outcome.CRASHED, Outcome.CRASHED, Outcome.FAILED, Outcome.INTERRUPTED, Outcome.TIMED_OUT]


class BrokenOff(Exception):
    """The connection's transaction is rolled back here, as when its process dies."""


class Saboteur:
    """Breaks a statement off now and then, before or after it was carried out."""

    def __init__(self, luck: random.Random) -> None:
        self._luck = luck

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        chance = self._luck.random()
        if chance < 0.01:
            raise BrokenOff
        result = execute(sql, params, many, context)
        if chance < 0.02:
            raise BrokenOff
        return result


class Actor(threading.Thread):
    """One process: a worker, its operator and its housekeeper, on a connection of its own."""

    def __init__(self, number: int, tasks: list[UUID], deadline: float) -> None:
        super().__init__(daemon=True)
        self.luck = random.Random(number)
        self.tasks = tasks
        self.deadline = deadline
        self.granted: list[Assignment] = []
        self.answers: list[tuple[Assignment, Outcome, Settled]] = []
        self.counts: Counter[str] = Counter()
        self.failure: BaseException | None = None

    def run(self) -> None:
        workers = WorkerConnections(USING)
        try:
            workers.use("stress")
            self.worker = Worker()
            for _ in range(ROUNDS):
                if time.monotonic() > self.deadline:
                    break
                self.act()
        except BaseException as failure:
            self.failure = failure
        finally:
            workers.close()

    def act(self) -> None:
        name = self.luck.choice(
            ["acquire"] * 4
            + ["settle"] * 4
            + ["claim", "renew", "release", "authorize", "expire", "cancel", "requeue"]
            + ["force_expire", "republish", "copy", "submit"]
        )
        try:
            with connections[USING].execute_wrapper(Saboteur(self.luck)):
                getattr(self, name)()
            self.counts[name] += 1
        except BrokenOff:
            self.counts["broken off"] += 1
            if connections[USING].in_atomic_block or not connections[USING].is_usable():
                connections[USING].close()
        except Busy as busy:
            self.counts["busy"] += 1
            assert busy.__cause__ is None or sqlstate(busy.__cause__) != "40P01", busy.__cause__

    def some(self, count: int) -> list[UUID]:
        return self.luck.sample(self.tasks, count)

    def own(self, count: int) -> list[Assignment]:
        """Assignments that this worker was given, long ago or just now."""
        recent = self.granted[-12:]
        return self.luck.sample(recent, min(count, len(recent)))

    def acquire(self) -> None:
        # A command that was broken off is repeated under its sequence, as a worker does.
        reply = self.worker.send(self.worker.sequence + 1, self.luck.randint(1, 4))
        assert reply is not None
        self.worker.sequence += 1
        self.granted += reply.assignments

    def claim(self) -> None:
        named = {attempt.task_id: attempt.number for attempt in Attempt.objects.filter(task_id__in=self.some(4))}
        # A claim of nothing is refused.
        if named:
            self.granted += self.worker.claim(*((task, number + 1) for task, number in named.items())).assignments

    def settle(self) -> None:
        own = list({a.task_id: a for a in self.own(3)}.values())
        outcomes = [self.luck.choice(OUTCOMES) for _ in own]
        batch = [settlement_of(a, outcome) for a, outcome in zip(own, outcomes, strict=True)]
        self.answers += zip(own, outcomes, settle(self.worker.session_id, batch, using=USING), strict=True)

    def release(self) -> None:
        own = self.own(1)
        answers = release(self.worker.session_id, [a.owner for a in own], using=USING)
        self.answers += [(a, Outcome.INTERRUPTED, answer) for a, answer in zip(own, answers, strict=True)]

    def renew(self) -> None:
        renew(self.worker.session_id, [a.owner for a in self.own(4)], using=USING)

    def authorize(self) -> None:
        for assignment in self.own(1):
            self.worker.authorize(assignment)

    def expire(self) -> None:
        if self.luck.random() < 0.3:
            expire_leases(*self.some(2))
        expire(using=USING)

    def cancel(self) -> None:
        cancel(self.some(3), using=USING)

    def requeue(self) -> None:
        seen = dict(Task.objects.filter(pk__in=self.some(8)).values_list("pk", "revision"))
        requeue(seen, operator(), using=USING)

    def force_expire(self) -> None:
        seen = dict(Lease.objects.filter(pk__in=self.some(4)).values_list("pk", "number"))
        if seen:
            force_expire(dict(seen), operator(), using=USING)

    def republish(self) -> None:
        republish(self.some(3), operator(), using=USING)

    def copy(self) -> None:
        requeue_as_copy(self.some(1), operator(), using=USING)

    def submit(self) -> None:
        key = f"key {self.luck.randrange(20)}"
        submit_tasks(1, idempotency_key=key)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.django_db(transaction=True)
def test_nothing_gives_way_under_sixteen_connections(settings):
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 5, "LEASE_SECONDS": 2, "BACKOFF_INITIAL_SECONDS": 0, "MAX_ATTEMPTS": 5}
    tasks = submit_tasks(TASKS)
    deadline = time.monotonic() + SECONDS
    actors = [Actor(number, tasks, deadline) for number in range(THREADS)]
    for actor in actors:
        actor.start()
    for actor in actors:
        actor.join(SECONDS + 60)
    assert not any(actor.is_alive() for actor in actors)
    assert [actor.failure for actor in actors if actor.failure] == []
    counts = sum((actor.counts for actor in actors), Counter())
    assert counts["broken off"] > THREADS and min(counts.values()) > 0, counts
    assert_audit_clean()
    assert_granted_once(actors)
    assert_settled_once(actors)
    drain()
    assert_audit_clean()


def assert_granted_once(actors: list[Actor]) -> None:
    """Every (task, number) was given to one worker at most, under the token of its record."""
    grants: dict[tuple[UUID, int], set[tuple[UUID, UUID]]] = defaultdict(set)
    for actor in actors:
        for assignment in actor.granted:
            grants[assignment.task_id, assignment.number].add((actor.worker.session_id, assignment.token))
    rows = {
        (task, number): {(session, token)}
        for task, number, session, token in execute("select task_id, number, session_id, token from ledgence_attempt")
    }
    assert len(grants) > THREADS
    assert {key: grants[key] for key in grants if grants[key] != rows.get(key)} == {}


def assert_settled_once(actors: list[Actor]) -> None:
    """Every attempt has one accepted end, the one on record, and one consequence."""
    accepted: dict[tuple[UUID, int], set[tuple[str, str]]] = defaultdict(set)
    for actor in actors:
        for assignment, outcome, answer in actor.answers:
            if answer.status is SettleStatus.ACCEPTED:
                accepted[assignment.task_id, assignment.number].add((outcome, answer.consequence))
    rows = {
        (task, number): {(outcome, consequence)}
        for task, number, outcome, consequence in execute(
            "select task_id, number, outcome, consequence from ledgence_attempt where settlement is not null"
        )
    }
    assert len(accepted) > THREADS
    assert {key: accepted[key] for key in accepted if accepted[key] != rows.get(key)} == {}


def drain() -> None:
    """Let every task come to its end: none is lost."""
    worker = Worker()
    for _ in range(100):
        expire_leases()
        expire(using=USING)
        make_due()
        for assignment in worker.acquire(100):
            worker.settle(assignment)
        if not Task.objects.filter(outcome=None).exists():
            return
    raise AssertionError(f"{Task.objects.filter(outcome=None).count()} tasks came to no end")
