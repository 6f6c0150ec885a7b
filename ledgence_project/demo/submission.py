"""Measurements without a worker: submission, and the limit that the statements of claim and settlement set."""

import os
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from django.db import connections, transaction

import ledgence
from ledgence import sql
from ledgence.operations.due import DueSearch
from ledgence.operations.sessions import open_session
from ledgence.operations.take import take
from ledgence.worker_connections import WorkerConnections
from ledgence_project.demo.programs import noop
from ledgence_worker.protocol import Assignment, CatalogueEntry, OpenSession

PAYLOAD = {"n": 1}
BATCH = 32


def submit_bulk(tasks: int, *, using: str) -> float:
    """Submit in calls of a thousand, each its own commit."""
    began = time.perf_counter()
    for start in range(0, tasks, 1000):
        ledgence.submit_many(ledgence.NewTask(program=noop, data=PAYLOAD) for _ in range(min(1000, tasks - start)))
    return tasks / (time.perf_counter() - began)


def submit_single(tasks: int, *, using: str) -> float:
    began = time.perf_counter()
    for _ in range(tasks):
        ledgence.submit(noop, PAYLOAD)
    return tasks / (time.perf_counter() - began)


def sql_limit(tasks: int, *, using: str) -> float:
    """Run the statements of claim and settlement in batches of 32, two commits a batch, on one connection."""
    own = WorkerConnections(using)
    before = connections[using]
    own.use("benchmark")
    try:
        session = _open_session(using=using)
        search = DueSearch()
        done = 0
        began = time.perf_counter()
        while done < tasks:
            with transaction.atomic(using=using), sql.batched(using):
                taken = take(
                    session,
                    search.find(session, BATCH, using=using),
                    None,
                    BATCH,
                    authorize=True,
                    using=using,
                )
            ends = _ends(session, taken)
            with transaction.atomic(using=using), sql.batched(using):
                sql.send("lock_leases", using, ends)
                sql.send("end_attempts", using, ends)
            done += len(taken)
        return done / (time.perf_counter() - began)
    finally:
        connections[using] = before
        own.close()


def _ends(session: UUID, taken: Sequence[Assignment]) -> dict[str, Any]:
    """Return what end_attempts takes for assignments that succeeded. Any: columns of several types."""
    return {
        "session": session,
        "tasks": [a.task_id for a in taken],
        "numbers": [a.number for a in taken],
        "tokens": [a.token for a in taken],
        "sessions": [session] * len(taken),
        "outcomes": ["succeeded"] * len(taken),
        "settlements": [b"\0" * 32] * len(taken),
        "results": ["null"] * len(taken),
        "reports": ["{}"] * len(taken),
        "classes": [None] * len(taken),
        "live": True,
    }


def _open_session(*, using: str) -> UUID:
    entry = CatalogueEntry(name=noop.name, version=noop.version, entry_point=noop.entry_point)
    command = OpenSession(
        session_id=uuid4(),
        name="benchmark",
        host="localhost",
        pid=os.getpid(),
        version="0",
        concurrency=BATCH,
        tenant="default",
        namespace="default",
        catalogue=(entry,),
    )
    return open_session(command, using=using).session_id
