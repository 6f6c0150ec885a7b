"""Facts as tests make them: a queued task that nothing holds up, and what differs from it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from ledgence.explanation.facts import (
    AttemptFacts,
    Facts,
    HolderFacts,
    IntentFacts,
    LeaseFacts,
    ProgramFacts,
    QueueFacts,
    TaskFacts,
)
from ledgence.status import OpenSession, PublisherStatus

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
TASK = UUID("01980000-0000-7000-8000-000000000001")


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def task(**changes: Any) -> TaskFacts:
    base = TaskFacts(
        id=TASK,
        tenant="default",
        namespace="default",
        outcome=None,
        finished_at=None,
        revision=0,
        max_attempts=3,
        timeout_seconds=300.0,
    )
    return replace(base, **changes)


def queue(**changes: Any) -> QueueFacts:
    base = QueueFacts(
        id=7,
        name="mail",
        mode="integrated",
        destination=None,
        paused_at=None,
        paused_until=None,
        paused_by="",
        pause_reason="",
    )
    return replace(base, **changes)


def external(**changes: Any) -> QueueFacts:
    return queue(mode="external", destination="arn:mail", **changes)


def intent(**changes: Any) -> IntentFacts:
    base = IntentFacts(
        generation=1,
        cause="submitted",
        charged=0,
        priority=0,
        available_at=ago(1),
        epoch=1,
        publications=0,
        first_published_at=None,
        last_published_at=None,
        next_publish_at=None,
        is_held=False,
        confirmed_at=None,
        refusals=0,
    )
    return replace(base, **changes)


def session(**changes: Any) -> OpenSession:
    base = OpenSession(
        id=uuid4(),
        tenant="default",
        namespace="default",
        name="w1",
        host="h1",
        pid=11,
        version="0",
        concurrency=4,
        queues=(),
        exclude_queues=(),
        opened_at=ago(3600),
        expires_at=ago(-3600),
        drain_requested_at=None,
        heard_seconds=3.0,
        running=("shop.other 1",),
        live=1,
        serves=True,
        versions=("1",),
    )
    return replace(base, **changes)


def publisher(**changes: Any) -> PublisherStatus:
    base = PublisherStatus(
        id=uuid4(),
        queue="mail",
        host="p1",
        pid=12,
        version="0",
        started_at=ago(3600),
        turned_seconds=1.0,
        answered_seconds=1.0,
        failure="",
    )
    return replace(base, **changes)


def attempt(**changes: Any) -> AttemptFacts:
    base = AttemptFacts(
        number=1,
        id=99,
        outcome="crashed",
        claimed_at=ago(30),
        authorized_at=ago(30),
        finished_at=ago(10),
        report_head=None,
        host="h1",
    )
    return replace(base, **changes)


def running(**changes: Any) -> AttemptFacts:
    return attempt(**{"outcome": None, "finished_at": None} | changes)


def lease(**changes: Any) -> LeaseFacts:
    base = LeaseFacts(number=1, charged=0, expires_at=ago(-50), bound_at=ago(-300), cancel_requested_at=None)
    return replace(base, **changes)


def holder(**changes: Any) -> HolderFacts:
    base = HolderFacts(
        id=uuid4(), name="w1", host="h1", pid=11, closed_at=None, expires_at=ago(-3600), extended_at=ago(3)
    )
    return replace(base, **changes)


def facts(**changes: Any) -> Facts:
    """Return the facts of a task, by default one that is due in a queue that an idle worker serves."""
    known: dict[str, Any] = {
        "at": NOW,
        "task": task(),
        "queue": queue(),
        "program": ProgramFacts(id=5, name="shop.send", version="1"),
        "has_hints": True,
        "lease_seconds": 60.0,
    }
    return Facts(**known | changes)


def queued(**changes: Any) -> Facts:
    return facts(**{"intent": intent(), "sessions": [session()], "ahead": 0} | changes)


def active(**changes: Any) -> Facts:
    known: dict[str, Any] = {"lease": lease(), "holder": holder(), "attempt": running()}
    return facts(**known | {"housekeeping_seconds": 4.0} | changes)


def ended(outcome: str, **changes: Any) -> Facts:
    """Return the facts of a task whose one attempt ended it 10 s ago."""
    own = task(outcome=outcome, finished_at=ago(10), revision=1)
    return facts(**{"task": own, "attempt": attempt(outcome=outcome)} | changes)
