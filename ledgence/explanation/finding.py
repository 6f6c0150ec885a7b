"""How the facts are found: at most four statements, each a few probes of an index."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any
from uuid import UUID

from ledgence import sql
from ledgence.explanation.facts import (
    ENDINGS_MAX,
    UNTAKEN_AFTER,
    AttemptFacts,
    EventFacts,
    Facts,
    HolderFacts,
    IntentFacts,
    LeaseFacts,
    ProgramFacts,
    QueueFacts,
    TaskFacts,
)
from ledgence.housekeeping import seconds_since_turn
from ledgence.models import State
from ledgence.models.publisher import SILENT_AFTER
from ledgence.status import COUNT_CAP, PublisherStatus, Wanted, find_open_sessions
from ledgence.watch import old_snapshots
from ledgence_worker.errors import NotFound


def find_facts(task: UUID, *, using: str) -> Facts:
    """Read the facts of a task. At most four statements, whatever the ledger holds. Raises NotFound."""
    terms = {"task": task, "silent_seconds": SILENT_AFTER.total_seconds(), "endings": ENDINGS_MAX}
    rows = sql.run("explain_task", using, terms)
    if not rows:
        raise NotFound(f"Task {task} does not exist in database {using!r}: it was never submitted, or is pruned.")
    facts = _read(rows[0])
    if facts.state is State.QUEUED:
        return _with_takers(facts, using=using)
    if facts.state is State.ACTIVE:
        return replace(facts, housekeeping_seconds=seconds_since_turn(using=using))
    return facts


def _with_takers(facts: Facts, *, using: str) -> Facts:
    """Add who could run a queued task, and what stands before it."""
    task, queue, program, intent = facts.task, facts.queue, facts.program, facts.intent
    assert intent is not None, "it is queued"  # noqa: S101 - for the type checker: its state says so
    wanted = Wanted(
        tenant=task.tenant, namespace=task.namespace, queue=queue.name, program=program.name, version=program.version
    )
    facts = replace(facts, sessions=find_open_sessions(wanted, using=using))
    if not facts.taking or not facts.is_due:
        return facts
    facts = replace(facts, ahead=_count_ahead(facts, intent, using=using))
    is_late = facts.at - intent.available_at > UNTAKEN_AFTER
    if is_late and facts.ahead == 0 and not queue.is_external and any(session.free for session in facts.taking):
        return replace(facts, old_snapshot=next(iter(old_snapshots(using)), None))
    return facts


def _count_ahead(facts: Facts, intent: IntentFacts, *, using: str) -> int:
    parameters = {
        "queue": facts.queue.id,
        "priority": intent.priority,
        "available_at": intent.available_at,
        "task": facts.task.id,
        "cap": COUNT_CAP,
    }
    count: int = sql.run("count_ahead", using, parameters)[0][0]
    return count


def _read(row: tuple[Any, ...]) -> Facts:
    """Split the row of explain_task.sql into values, by the order of their fields."""
    columns = iter(row)
    return Facts(
        at=next(columns),
        task=_take(TaskFacts, columns),
        queue=_take(QueueFacts, columns),
        program=_take(ProgramFacts, columns),
        intent=_take(IntentFacts, columns),
        event=_take(EventFacts, columns),
        publisher=_take(PublisherStatus, columns),
        lease=_take(LeaseFacts, columns),
        holder=_take(HolderFacts, columns),
        attempt=_take(AttemptFacts, columns),
        endings=next(columns),
    )


def _take(kind: Any, columns: Iterator[Any]) -> Any:
    """Take a value's columns; the first is null where there is no such row."""
    values = {name.name: next(columns) for name in fields(kind)}
    return None if next(iter(values.values())) is None else kind(**values)
