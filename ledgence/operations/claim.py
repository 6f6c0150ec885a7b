"""The claim by name: a worker that received references from a broker asks for exactly those generations."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from ledgence import sql
from ledgence.models import Queue, WorkerSession
from ledgence.operations.channels import check_channel, lock_channel, open_channel, record_answer
from ledgence.operations.take import take
from ledgence.transitions import transition
from ledgence_worker.errors import Busy
from ledgence_worker.protocol import Assignment


class ClaimStatus(StrEnum):
    """The answer to one dispatch. Each of them allows the message to be acknowledged, except not_found."""

    # The attempt is this session's.
    CLAIMED = "claimed"
    # An attempt of this generation holds a lease.
    ALREADY_HANDED_OFF = "already_handed_off"
    # The generation is over, or the task is terminal.
    TERMINAL_OR_SUPERSEDED = "terminal_or_superseded"
    # Not due yet, or the queue is paused: its intent stands and will be published again.
    DEFERRED = "deferred"
    # No such task in the session's tenant and namespace, or a generation that was never issued.
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """The exact work that a message names."""

    task_id: UUID
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The answers to a claim, by dispatch, and the assignments of those that were claimed."""

    answers: dict[Dispatch, ClaimStatus]
    assignments: tuple[Assignment, ...]


def claim(session_id: UUID, channel: int, sequence: int, dispatches: Sequence[Dispatch], *, using: str) -> Claimed:
    """Turn exactly the named generations into leases of the session. Atomic; replayed by (channel, sequence).

    Not authorized yet: authorize before user code starts. When nothing was claimed no sequence is consumed.
    Raises InvalidInput, NotFound (session), SessionExpired, OutOfOrder, and Busy when a generation is changing hands.
    """
    check_channel("claim", channel, sequence)
    wanted = sorted(set(dispatches), key=lambda d: (d.task_id, d.generation))
    with transition(using, what="claim"):
        locked = lock_channel(session_id, channel, using=using)()
        recorded = open_channel(session_id, channel, sequence, locked, using=using)
        session = WorkerSession.objects.using(using).get(pk=session_id)
        if recorded is not None:
            return _replay(*recorded, wanted, session, using=using)
        due, answers = _lock(wanted, session, using=using)
        tasks, generations = [d.task_id for d in due], [d.generation for d in due]
        taken = take(session_id, tasks, generations, len(due), authorize=False, using=using)
        answers |= {Dispatch(task_id=a.task_id, generation=a.number): ClaimStatus.CLAIMED for a in taken}
        answers |= _explain([d for d in wanted if d not in answers], session, replayed=False, using=using)
        if taken:
            record_answer(session_id, channel, sequence, taken, using=using)
        return Claimed(answers=answers, assignments=tuple(taken))


def _lock(
    dispatches: Sequence[Dispatch], session: WorkerSession, *, using: str
) -> tuple[list[Dispatch], dict[Dispatch, ClaimStatus]]:
    """Lock the named intents; return those that the session may have now, and the answers of those that wait."""
    rows = sql.run("lock_intents", using, {"tasks": [d.task_id for d in dispatches]})
    own = Queue.objects.using(using).filter(tenant=session.tenant, namespace=session.namespace)
    paused_at = dict(own.filter(pk__in={row[3] for row in rows}).values_list("pk", "paused_at"))
    ready = {
        Dispatch(task_id=task, generation=generation): is_due and paused_at[queue] is None
        for task, generation, is_due, queue in rows
        if queue in paused_at
    }
    due = [d for d in dispatches if ready.get(d)]
    return due, {d: ClaimStatus.DEFERRED for d in dispatches if ready.get(d) is False}


def _explain(
    dispatches: Sequence[Dispatch], session: WorkerSession, *, replayed: bool, using: str
) -> dict[Dispatch, ClaimStatus]:
    """Tell of dispatches that were not claimed, in a new snapshot. A replayed claim takes nothing: what is ready waits.

    Raises Busy when a generation became ready since the first look.
    """
    if not dispatches:
        return {}
    rows = sql.run(
        "explain_dispatches",
        using,
        {
            "tasks": [d.task_id for d in dispatches],
            "generations": [d.generation for d in dispatches],
            "tenant": session.tenant,
            "namespace": session.namespace,
        },
    )
    if not replayed and any(status == "ready" for _, _, status in rows):
        raise Busy("claim: a named generation is changing hands; nothing was written. Repeat it.")
    return {
        Dispatch(task_id=task, generation=number): ClaimStatus.DEFERRED if status == "ready" else ClaimStatus(status)
        for task, number, status in rows
    }


def _replay(
    live: tuple[Assignment, ...],
    lost: tuple[tuple[UUID, int], ...],
    dispatches: Sequence[Dispatch],
    session: WorkerSession,
    *,
    using: str,
) -> Claimed:
    """Answer from the record what was claimed, and anew what was not: it is not this command's any more."""
    named = set(dispatches)
    answers = {Dispatch(task_id=a.task_id, generation=a.number): ClaimStatus.CLAIMED for a in live}
    answers |= {Dispatch(task_id=t, generation=n): ClaimStatus.TERMINAL_OR_SUPERSEDED for t, n in lost}
    answers |= _explain([d for d in dispatches if d not in answers], session, replayed=True, using=using)
    return Claimed(answers={d: s for d, s in answers.items() if d in named}, assignments=live)
