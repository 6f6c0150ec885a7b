"""Settlement and release: the owner of a lease tells how its attempt ended."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from uuid import UUID

from ledgence import hints, sql
from ledgence.rollups import count_ends
from ledgence.transitions import transition
from ledgence_worker import limits, strict_json
from ledgence_worker.errors import InvalidInput
from ledgence_worker.protocol import Outcome, Owner, Settled, Settlement, SettleStatus


def settle(session_id: UUID, settlements: Sequence[Settlement], *, using: str) -> list[Settled]:
    """End attempts by their owner's word, in the order given. Atomic; replayed; accepted once.

    Raises InvalidInput before anything is written, and Busy when a lock was not free within the time-out.
    """
    check_settlements(settlements)
    with transition(using, what="settle", batched=True):
        return settle_held(session_id, settlements, using=using)()


def release(session_id: UUID, owners: Sequence[Owner], *, using: str) -> list[Settled]:
    """Give attempts back whose processes are known to be gone: the next generation is ready at once, uncharged."""
    return settle(
        session_id,
        [Settlement(task_id=o.task_id, number=o.number, token=o.token, outcome=Outcome.INTERRUPTED) for o in owners],
        using=using,
    )


def check_settlements(settlements: Sequence[Settlement]) -> None:
    """Refuse what could never be written, before a transaction begins."""
    if len({(s.task_id, s.number) for s in settlements}) != len(settlements):
        raise InvalidInput("settle: an attempt stands twice in one batch; send each once.")
    for settlement in settlements:
        what = f"settle {settlement.task_id}.{settlement.number}"
        if (settlement.result is not None) != (settlement.outcome is Outcome.SUCCEEDED):
            raise InvalidInput(f"{what}: a result belongs to the outcome succeeded, and to no other.")
        if settlement.result is not None:
            strict_json.loads(settlement.result, what=f"{what}: result", limit=limits.RESULT_BYTES)


def settle_held(session_id: UUID, settlements: Sequence[Settlement], *, using: str) -> Callable[[], list[Settled]]:
    """Settle inside a transaction that the caller holds open: send it, and return what fetches the answers."""
    if not settlements:
        return list
    columns = _columns(session_id, settlements)
    sql.send("lock_leases", using, columns)
    ended = sql.send("end_attempts", using, {**columns, "live": True})
    return lambda: _answer(session_id, settlements, ended(), using=using)


def _answer(session_id: UUID, settlements: Sequence[Settlement], ended: sql.Rows, *, using: str) -> list[Settled]:
    answers = {
        (task, number): Settled(task_id=task, number=number, status=SettleStatus.ACCEPTED, consequence=consequence)
        for task, number, consequence, _ in ended
    }
    hints.announce({queue for _, _, consequence, queue in ended if consequence == "retry"}, using=using)
    given_back = {(s.task_id, s.number) for s in settlements if s.outcome is Outcome.INTERRUPTED}
    kept = [(queue, consequence) for task, number, consequence, queue in ended if (task, number) not in given_back]
    count_ends(kept, using=using)
    if rest := [s for s in settlements if (s.task_id, s.number) not in answers]:
        for task, number, status, consequence in sql.run("record_late_settlements", using, _columns(session_id, rest)):
            accepted = status == SettleStatus.ACCEPTED
            answers[task, number] = Settled(
                task_id=task,
                number=number,
                status=SettleStatus(status),
                consequence=consequence if accepted else "",
            )
    return [
        answers.get((s.task_id, s.number), Settled(task_id=s.task_id, number=s.number, status=SettleStatus.NOT_FOUND))
        for s in settlements
    ]


def _columns(session_id: UUID, settlements: Sequence[Settlement]) -> dict[str, object]:
    reports = [_report(s) for s in settlements]
    return {
        "session": session_id,
        "tasks": [s.task_id for s in settlements],
        "numbers": [s.number for s in settlements],
        "tokens": [s.token for s in settlements],
        "sessions": [session_id] * len(settlements),
        "outcomes": [s.outcome.value for s in settlements],
        "settlements": [
            hashlib.sha256(f"{s.outcome}\n{report}\n{s.result}".encode()).digest()
            for s, report in zip(settlements, reports, strict=True)
        ],
        "results": [s.result for s in settlements],
        "reports": reports,
        "classes": [_words(s.report.error.classes) if s.report.error else None for s in settlements],
    }


def _words(classes: Sequence[str]) -> str:
    """Join class names for the retry decision; what no policy could name must not keep the attempt from ending."""
    return " ".join(classes).replace("\0", "").encode("utf-8", "replace").decode()


def _report(settlement: Settlement) -> str:
    """Encode a report so that it can always be stored: an end that cannot be written would never end."""
    what = f"settle {settlement.task_id}.{settlement.number}: the report"
    try:
        text = json.dumps(
            asdict(settlement.report), ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
        )
    except ValueError as error:
        raise InvalidInput(f"{what} is not valid JSON: {error}.") from None
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > limits.REPORT_BYTES:
        raise InvalidInput(f"{what} has {len(encoded)} bytes; at most {limits.REPORT_BYTES} are kept.")
    return encoded.decode()
