"""The claim by name: a worker that received references from a broker asks for exactly those generations."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from uuid import UUID

from ledgence import sql
from ledgence.operations.channels import Recorded, check_channel, lock_channel, open_channel, record_answer
from ledgence.operations.take import take
from ledgence.transitions import transition
from ledgence_worker import limits
from ledgence_worker.claims import Claim, ClaimAnswer, Claimed, ClaimStatus, Dispatch
from ledgence_worker.errors import Busy, InvalidInput
from ledgence_worker.protocol import Assignment

GENERATION_MAX = 2**31 - 1

type Statuses = dict[Dispatch, ClaimStatus]


def claim(command: Claim, *, using: str) -> Claimed:
    """Turn exactly the named generations into leases of the session. Atomic; replayed by (channel, sequence).

    Every answered claim consumes its sequence. What is deferred is published again when it may run; for a session that
    is to drain that is all of it. Raises InvalidInput, NotFound (session), SessionExpired, OutOfOrder, and Busy when a
    generation is changing hands.
    """
    check_claim(command)
    with transition(using, what="claim", batched=True):
        channel = lock_channel(command.session_id, command.channel, using=using)
        held = _send_lock(command, using=using)
        opened = open_channel(command.session_id, command.channel, command.sequence, channel(), using=using)
        if opened.recorded is not None:
            return replace(_replay(command, opened.recorded, using=using), drain_requested=opened.is_draining)
        ready, waiting, unknown = _sort(command.dispatches, held())
        if opened.is_draining:
            ready, waiting = [], [*ready, *waiting]
        taken = _take(command, ready, using=using)
        deferred = [*waiting, *unknown]
        statuses = _claimed(taken) | dict.fromkeys(deferred, ClaimStatus.DEFERRED)
        if deferred:
            columns = {"tasks": [d.task_id for d in deferred], "unknown": [d.task_id for d in unknown]}
            sql.send("defer_intents", using, columns)
        rest = [d for d in command.dispatches if d not in statuses]
        statuses |= _explain(command.session_id, rest, replayed=False, using=using)
        record_answer(command.session_id, command.channel, command.sequence, taken, using=using)
        return Claimed(
            answers=_answers(command.dispatches, statuses),
            assignments=tuple(taken),
            drain_requested=opened.is_draining,
        )


def check_claim(command: Claim) -> None:
    """Refuse what could never be answered, before a transaction begins."""
    check_channel("claim", command.channel, command.sequence)
    limits.check_range("claim: number of dispatches", len(command.dispatches), 1, limits.CONCURRENCY_MAX)
    for dispatch in command.dispatches:
        limits.check_range("claim: generation", dispatch.generation, 1, GENERATION_MAX)
    if len(set(command.dispatches)) != len(command.dispatches):
        raise InvalidInput("claim: a dispatch stands twice in one batch; send each once.")


def _send_lock(command: Claim, *, using: str) -> Callable[[], sql.Rows]:
    tasks = sorted({d.task_id for d in command.dispatches})
    return sql.send("lock_dispatches", using, {"session": command.session_id, "tasks": tasks})


def _sort(dispatches: Sequence[Dispatch], held: sql.Rows) -> tuple[list[Dispatch], list[Dispatch], list[Dispatch]]:
    """Return which of the dispatches may run now, which have to wait, and whose program the session does not know."""
    found = {Dispatch(task_id=task, generation=generation): flags for task, generation, *flags in held}
    known = [d for d in dispatches if d in found and found[d][1]]
    ready, waiting = [d for d in known if found[d][0]], [d for d in known if not found[d][0]]
    return ready, waiting, [d for d in dispatches if d in found and not found[d][1]]


def _take(command: Claim, ready: Sequence[Dispatch], *, using: str) -> list[Assignment]:
    if not ready:
        return []
    tasks, generations = [d.task_id for d in ready], [d.generation for d in ready]
    return take(command.session_id, tasks, generations, len(ready), authorize=command.authorize, using=using)


def _explain(session_id: UUID, dispatches: Sequence[Dispatch], *, replayed: bool, using: str) -> Statuses:
    """Tell of dispatches that were not claimed, in a new snapshot. A replayed claim takes nothing: what is ready waits.

    Raises Busy when a generation became ready since the first look.
    """
    if not dispatches:
        return {}
    rows = sql.send(
        "explain_dispatches",
        using,
        {
            "session": session_id,
            "tasks": [d.task_id for d in dispatches],
            "generations": [d.generation for d in dispatches],
        },
    )()
    if not replayed and any(status == "ready" for _, _, status in rows):
        raise Busy("claim: a named generation is changing hands; nothing was written. Repeat it.")
    return {
        Dispatch(task_id=task, generation=number): ClaimStatus.DEFERRED if status == "ready" else ClaimStatus(status)
        for task, number, status in rows
    }


def _replay(command: Claim, recorded: Recorded, *, using: str) -> Claimed:
    """Answer from the record what was claimed, and anew what was not: it is not this command's any more."""
    live, lost = recorded
    over = {Dispatch(task_id=task, generation=number): ClaimStatus.TERMINAL_OR_SUPERSEDED for task, number in lost}
    statuses = _claimed(live) | over
    rest = [d for d in command.dispatches if d not in statuses]
    statuses |= _explain(command.session_id, rest, replayed=True, using=using)
    return Claimed(answers=_answers(command.dispatches, statuses), assignments=live, lost=lost)


def _claimed(assignments: Iterable[Assignment]) -> Statuses:
    return {Dispatch(task_id=a.task_id, generation=a.number): ClaimStatus.CLAIMED for a in assignments}


def _answers(dispatches: Sequence[Dispatch], statuses: Statuses) -> tuple[ClaimAnswer, ...]:
    return tuple(ClaimAnswer(task_id=d.task_id, generation=d.generation, status=statuses[d]) for d in dispatches)
