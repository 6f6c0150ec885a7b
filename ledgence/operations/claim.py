"""The claim by name: a worker that received references from a broker asks for exactly those generations."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from ledgence import sql
from ledgence.models import Queue, WorkerSession
from ledgence.operations.acquire import open_channel, record_answer, take
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
    Raises NotFound (session), SessionExpired, OutOfOrder, and Busy when a generation is changing hands.
    """
    wanted = sorted(set(dispatches), key=lambda d: d.task_id)
    with transition(using, what="claim"):
        recorded = open_channel(session_id, channel, sequence, using=using)
        if recorded is not None:
            return _replay(recorded[0], recorded[1], wanted)
        held = {row[0]: row[1:] for row in sql.run("lock_intents", using, {"tasks": [d.task_id for d in wanted]})}
        session = WorkerSession.objects.using(using).get(pk=session_id)
        closed = _queues_that_defer({row[2] for row in held.values()}, using=using)
        answers: dict[Dispatch, ClaimStatus] = {}
        due: list[Dispatch] = []
        for dispatch in wanted:
            generation, is_due, queue = held.get(dispatch.task_id, (None, False, None))
            if generation == dispatch.generation:
                if is_due and queue not in closed:
                    due.append(dispatch)
                else:
                    answers[dispatch] = ClaimStatus.DEFERRED
        taken = take(
            session_id,
            [d.task_id for d in due],
            [d.generation for d in due],
            len(due),
            authorize=False,
            using=using,
        )
        answers |= {Dispatch(task_id=a.task_id, generation=a.number): ClaimStatus.CLAIMED for a in taken}
        answers |= _explain([d for d in wanted if d not in answers], session, using=using)
        if taken:
            record_answer(session_id, channel, sequence, taken, using=using)
        return Claimed(answers=answers, assignments=tuple(taken))


def _queues_that_defer(queue_ids: set[int], *, using: str) -> set[int]:
    paused = Queue.objects.using(using).filter(pk__in=queue_ids, paused_at__isnull=False)
    return set(paused.values_list("pk", flat=True))


def _explain(dispatches: Sequence[Dispatch], session: WorkerSession, *, using: str) -> dict[Dispatch, ClaimStatus]:
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
    if any(status == "undecided" for _, _, status in rows):
        raise Busy("claim: a named generation is changing hands; nothing was written. Repeat it.")
    return {Dispatch(task_id=task, generation=number): ClaimStatus(status) for task, number, status in rows}


def _replay(
    live: tuple[Assignment, ...], lost: tuple[tuple[UUID, int], ...], dispatches: Sequence[Dispatch]
) -> Claimed:
    named = set(dispatches)
    answers = {Dispatch(task_id=a.task_id, generation=a.number): ClaimStatus.CLAIMED for a in live}
    answers |= {Dispatch(task_id=t, generation=n): ClaimStatus.TERMINAL_OR_SUPERSEDED for t, n in lost}
    return Claimed(answers={d: s for d, s in answers.items() if d in named}, assignments=live)
