"""Operator actions on thousands of tasks: begun in one transaction, and applied in many, chunk by chunk."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from django.db import DatabaseError, OperationalError
from django.db.models.functions import Now

from ledgence import sql
from ledgence.models import OperatorAction
from ledgence.operations import operate, reschedule
from ledgence.operations.actions import (
    UNCHANGED,
    Answers,
    Operator,
    begin,
    check_operator,
    find_repeated,
    record,
    targets_of,
)
from ledgence.transitions import transition
from ledgence_worker.errors import Busy, InvalidInput, LedgenceError

logger = logging.getLogger("ledgence.bulk")

Kind, State = OperatorAction.Kind, OperatorAction.State

#: How many rows one action may have.
ROWS_MAX = 50_000
#: How many rows are locked at a time, for some tens of milliseconds.
CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """How a kind of action is applied to a chunk, and what is seen of each task when the action begins."""

    apply: Callable[..., Answers]
    #: "revision", "generation" (queued), "attempt" (active), or nothing.
    seen: str = ""
    #: Refuses parameters that the operation cannot take.
    check: Callable[..., None] = lambda: None


PARTS: Mapping[str, Part] = {
    Kind.REQUEUE: Part(apply=operate.requeue_held, seen="revision"),
    Kind.COPY: Part(apply=operate.copy_held),
    Kind.CANCEL: Part(apply=operate.cancel_by_operator_held, seen="revision"),
    Kind.REPUBLISH: Part(apply=operate.republish_held, seen="generation"),
    Kind.FORCE_EXPIRE: Part(apply=operate.force_expire_held, seen="attempt"),
    Kind.RUN_NOW: Part(apply=reschedule.run_now_held, seen="generation"),
    Kind.MOVE: Part(apply=reschedule.move_held, seen="generation", check=reschedule.check_queue),
    Kind.SET_PRIORITY: Part(apply=reschedule.set_priority_held, seen="generation", check=reschedule.check_priority),
}


def begin_bulk(
    kind: OperatorAction.Kind,
    tasks: Sequence[UUID],
    operator: Operator,
    *,
    scope: Mapping[str, Any],
    parameters: Mapping[str, Any] | None = None,
    using: str,
) -> None:
    """Begin an action on up to ROWS_MAX tasks, each as it is now. Nothing of it is applied yet. Replayed by its id.

    ``scope`` tells what found the tasks, as values of JSON; ``parameters`` are those of the operation. Raises
    InvalidInput, Conflict (the id was used for something else) and Busy.
    """
    check_operator(operator, kind)
    PARTS[kind].check(**(parameters or {}))
    chosen = list(dict.fromkeys(tasks))
    with transition(using, what=kind):
        if not begin(operator, kind, parameters, scope=scope, state=State.RUNNING, matched=len(chosen), using=using):
            find_repeated(operator, kind, parameters, scope=scope, using=using)
            return
        # After the look for a repeat, which may find nothing left to name.
        if not 0 < len(chosen) <= ROWS_MAX:
            raise InvalidInput(f"{kind} {operator.action_id}: {len(chosen)} rows; it takes 1 to {ROWS_MAX}.")
        columns = {"action": operator.action_id, "tasks": chosen, "seen": PARTS[kind].seen}
        sql.run("fill_action", using, columns)
    logger.info("action begun action_id=%s kind=%s matched=%s", operator.action_id, kind, len(chosen))


def stop(actions: Iterable[UUID], operator: Operator, *, using: str) -> Answers:
    """Stop actions that are applied in chunks. A chunk that is on its way ends; no further one begins.

    Answers by action id: stopped, already (it was not running) or not_found.
    """
    ids = sorted(set(actions))
    return record(operator, Kind.STOP, targets_of(ids), partial(_stop_held, ids, using=using), using=using)


def _stop_held(ids: Sequence[UUID], *, using: str) -> Answers:
    rows = OperatorAction.objects.using(using)
    held = dict(rows.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk").values_list("pk", "state"))
    running = [pk for pk, state in held.items() if state == State.RUNNING]
    rows.filter(pk__in=running).update(state=State.STOPPED, finished_at=Now())
    return {str(pk): "stopped" if pk in running else "already" if pk in held else "not_found" for pk in ids}


@dataclass(slots=True)
class _Progress:
    """What one process knows of an action: how many rows to take at a time, and which ones were held by somebody."""

    size: int
    passed: set[str] = field(default_factory=set)


class Bulk:
    """Applies the running actions of a database, one transaction a chunk. Belongs to one thread.

    Any number of processes may: each takes rows that no other has taken, and a row is answered in the transaction that
    acts on it, so that it is acted on once, whenever a process ends. A row that cannot be acted on holds up nobody:
    what somebody's transaction holds is left to the end, and what the database or the operation refuses is answered so.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._progress: dict[UUID, _Progress] = {}

    def turn(self, only: UUID | None = None) -> bool:
        """Apply a chunk of each running action, or of the one; return whether there is more to do at once."""
        running = [row for row in sql.run("find_running_actions", self._using) if only in (None, row[0])]
        self._progress = {row[0]: self._progress.get(row[0]) or _Progress(size=CHUNK) for row in running}
        return any([self._step(*row) for row in running])

    def _step(self, action: UUID, kind: str, parameters: dict[str, Any] | None) -> bool:
        taken: dict[str, int] = {}
        try:
            with transition(self._using, what=f"{kind} {action}"):
                rows = self._take(action, self._progress[action].size)
                taken = {target: row for row, target, _ in rows}
                if rows:
                    tasks = {UUID(target): seen for _, target, seen in rows}
                    answers = PARTS[kind].apply(tasks, using=self._using, **(parameters or {}))
                    self._answer(action, taken, answers)
        except (LedgenceError, DatabaseError) as error:
            # A broken connection says nothing of a row.
            if not taken or isinstance(error, OperationalError):
                raise
            self._leave(action, taken, error)
            return True
        return bool(taken) or self._end(action)

    def _leave(self, action: UUID, taken: dict[str, int], error: Exception) -> None:
        """Look closer at a chunk of which nothing was done; of a single row: leave it."""
        progress = self._progress[action]
        if len(taken) > 1:
            progress.size = max(1, len(taken) // 10)
            return
        [target] = taken
        progress.size = CHUNK
        if not isinstance(error, Busy) and self._refuse(action, target):
            logger.error("row refused action_id=%s row=%s error=%s", action, target, error)
        else:
            progress.passed.add(target)

    def _refuse(self, action: UUID, target: str) -> bool:
        """Answer a row that nothing could be done with, unless another process has it now; return whether it is."""
        with transition(self._using, what=f"refuse {target}"):
            for row, first, _ in self._take(action, 1):
                if first == target:
                    self._answer(action, {target: row}, {target: "refused"})
                    return True
        return False

    def _take(self, action: UUID, limit: int) -> sql.Rows:
        columns = {"action": action, "limit": limit, "passed": list(self._progress[action].passed)}
        return sql.run("take_targets", self._using, columns)

    def _answer(self, action: UUID, rows: dict[str, int], answers: Answers) -> None:
        """Write answers into the rows that they are for, by the rows' keys."""
        columns = {"targets": [rows[target] for target in answers], "answers": list(answers.values())}
        sql.run("answer_targets", self._using, {"action": action, "unchanged": sorted(UNCHANGED), **columns})

    def _end(self, action: UUID) -> bool:
        """End an action of which no row is left to take. Rows that were held come again with the next turn."""
        self._progress[action].passed.clear()
        for matched, changed in sql.run("finish_action", self._using, {"action": action}):
            logger.info("action done action_id=%s matched=%s changed=%s", action, matched, changed)
        return False
