"""Submission: a task and its first delivery intent, in the caller's transaction, both or neither."""

import os
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import transaction

from ledgence import hints, sql
from ledgence.operations.programs import Wanted, ensure_programs
from ledgence.policy import ensure_policy
from ledgence.submission import Key, Submission, Submitted, Terms
from ledgence.transitions import transition
from ledgence_worker.errors import Busy, Conflict

BATCH = 1000
# How many characters of data one statement carries: escaped twice they are up to sixteen times as many bytes, and
# PostgreSQL ends the connection that sends it a gigabyte.
BATCH_CHARACTERS = 4 * 1024 * 1024
ROUNDS = 5


def submit(submissions: Sequence[Submission], *, using: str) -> list[Submitted]:
    """Submit tasks in the caller's transaction (its own, if there is none), all or none, answered in order.

    A repeat of an idempotency key answers the first task; other content under it raises Conflict, and so does another
    entry point under a program's version. A key that another transaction holds is waited for, at most
    LOCK_TIMEOUT_SECONDS: Busy. After either, nothing of the call stands and the caller's transaction is still usable.
    Under REPEATABLE READ and SERIALIZABLE a key that was taken after the transaction began also raises Busy: only a new
    transaction can see it. The hint goes out after the commit.
    """
    if not submissions:
        return []
    # Without keys only a new queue, program or policy can be waited for, and making it bounds its own wait.
    if all(s.idempotency_key is None for s in submissions):
        with transaction.atomic(using=using):
            return _submit(submissions, using=using)
    with transition(using, what="submit"):
        return _submit(submissions, using=using)


def _submit(submissions: Sequence[Submission], *, using: str) -> list[Submitted]:
    ids = make_ids(len(submissions))
    tasks = dict(zip(ids, submissions, strict=True))
    winners = _first_of_each_key(tasks)
    pending = {task: s for task, s in tasks.items() if winners.get(s.key, task) == task}
    made: set[UUID] = set()
    for round_number in range(ROUNDS):
        for batch in _batches(pending):
            made |= _insert(batch, using=using)
        pending = {task: s for task, s in pending.items() if task not in made}
        if not pending:
            break
        found = _find_keys(pending, using=using)
        winners |= found
        pending = {task: s for task, s in pending.items() if s.key not in found}
        if not pending:
            break
        if round_number == 0:
            _ensure({s.terms for s in pending.values()}, using=using)
    if pending:
        raise Busy(f"submit: {len(pending)} idempotency keys kept changing hands; nothing was written. Repeat it.")
    return [
        Submitted(task_id=task, is_new=True) if task in made else Submitted(task_id=winners[s.key], is_new=False)
        for task, s in tasks.items()
    ]


def _first_of_each_key(tasks: dict[UUID, Submission]) -> dict[Key | None, UUID]:
    """Return the first task of each key in this call. Raises Conflict when one key has two contents in it."""
    first: dict[Key | None, UUID] = {}
    for task, submission in tasks.items():
        if submission.key is None:
            continue
        winner = first.setdefault(submission.key, task)
        if winner != task and tasks[winner].digest() != submission.digest():
            raise Conflict(f"submit: idempotency key {submission.idempotency_key!r} stands twice with other content.")
    return first


def _batches(pending: dict[UUID, Submission]) -> list[list[tuple[UUID, Submission]]]:
    items = list(pending.items())
    if any(s.idempotency_key is not None for s in pending.values()):
        # Keys are taken in one order over all batches, so that two calls cannot deadlock.
        items.sort(
            key=lambda item: (item[1].terms.tenant, item[1].terms.namespace, item[1].idempotency_key or "", item[0])
        )
    batches: list[list[tuple[UUID, Submission]]] = []
    room = 0
    for item in items:
        size = len(item[1].data)
        if not batches or size > room or len(batches[-1]) == BATCH:
            batches.append([])
            room = max(size, BATCH_CHARACTERS)
        batches[-1].append(item)
        room -= size
    return batches


def _insert(batch: list[tuple[UUID, Submission]], *, using: str) -> set[UUID]:
    groups: dict[Terms, int] = {}
    places = [groups.setdefault(s.terms, len(groups) + 1) for _, s in batch]
    rows = sql.run(
        "submit_tasks",
        using,
        {
            "tenants": [terms.tenant for terms in groups],
            "namespaces": [terms.namespace for terms in groups],
            "queues": [terms.queue for terms in groups],
            "programs": [terms.program for terms in groups],
            "versions": [terms.version for terms in groups],
            "entry_points": [terms.entry_point for terms in groups],
            "policies": [terms.policy.digest for terms in groups],
            "priorities": [terms.priority for terms in groups],
            "available_ats": [terms.run_after for terms in groups],
            "ids": [task for task, _ in batch],
            "places": places if len(groups) > 1 else None,
            "keys": _column([s.idempotency_key for _, s in batch]),
            "digests": _column([s.digest() for _, s in batch]),
            "correlation_keys": _column([s.correlation_key for _, s in batch]),
            "traceparents": _column([s.traceparent for _, s in batch]),
            "copies": _column([s.copy_of for _, s in batch]),
            "data": [s.data for _, s in batch],
        },
    )
    hints.announce({queue for _, queue in rows}, using=using)
    return {task for task, _ in rows}


def _column(values: list[Any]) -> list[Any] | None:
    """Send a column that is all NULL as one NULL."""
    return values if any(value is not None for value in values) else None


def _find_keys(pending: dict[UUID, Submission], *, using: str) -> dict[Key | None, UUID]:
    """Return the tasks that hold the pending keys. Raises Conflict when one was submitted with other content."""
    keyed = [s for s in pending.values() if s.key is not None]
    if not keyed:
        return {}
    rows = sql.run(
        "find_keys",
        using,
        {
            "tenants": [s.terms.tenant for s in keyed],
            "namespaces": [s.terms.namespace for s in keyed],
            "keys": [s.idempotency_key for s in keyed],
        },
    )
    found: dict[Key | None, UUID] = {}
    for place, task, digest in rows:
        if bytes(digest) != keyed[place].digest():
            # Without the task's id: a caller over HTTP may be limited to other queues than that task's.
            raise Conflict(
                f"Idempotency key {keyed[place].idempotency_key!r} was used before with other content. "
                "Nothing was written; use a new key for new work.",
                task_id=task,
            )
        found[keyed[place].key] = task
    return found


def _ensure(wanted: set[Terms], *, using: str) -> None:
    """Make the queues, programs and policies that do not exist, in the caller's transaction.

    Raises Conflict when a program's version has another entry point, Busy while another transaction makes the same.
    """
    with transition(using, what="submit"):
        queues = sorted({(terms.tenant, terms.namespace, terms.queue) for terms in wanted})
        tenants, namespaces, names = map(list, zip(*queues, strict=True))
        sql.run("ensure_queues", using, {"tenants": tenants, "namespaces": namespaces, "queues": names})
        ensure_programs((_program_of(terms) for terms in wanted), using=using)
        policies = {terms.policy.digest: terms.policy for terms in wanted}
        for digest in sorted(policies):
            ensure_policy(policies[digest], using=using)


def _program_of(terms: Terms) -> Wanted:
    return Wanted(terms.tenant, terms.namespace, terms.program, terms.version, terms.entry_point)


def make_ids(count: int) -> list[UUID]:
    """Return version 7 UUIDs, ascending within the call: 48 bits of milliseconds, 74 bits of randomness."""
    base = (time.time_ns() // 1_000_000) << 80 | 0x7 << 76 | 0b10 << 62
    noise = os.urandom(10 * count)
    draws = sorted(int.from_bytes(noise[start : start + 10]) >> 6 for start in range(0, len(noise), 10))
    return [UUID(int=base | (draw >> 62) << 64 | draw & (1 << 62) - 1) for draw in draws]
