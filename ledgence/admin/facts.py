"""What is known of tasks, queues and tokens now, as values: what lists show, and what confirmations judge."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from ledgence import sql
from ledgence.conf import get_settings
from ledgence.explanation import Facts
from ledgence.models import ApiToken, OperatorAction, Queue, State, WorkerSession
from ledgence.reported import error_class
from ledgence.wording import clock_time


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKind:
    """What decides what an operator may do to a task."""

    outcome: str | None
    is_queued: bool
    is_later: bool
    is_active: bool
    is_cancel_requested: bool

    @property
    def state(self) -> State | None:
        """The state; None for a task that breaks the ledger's first invariant."""
        if self.outcome is not None:
            return State(self.outcome)
        if self.is_active:
            return State.ACTIVE
        return State.QUEUED if self.is_queued else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts(TaskKind):
    """Where a task is, in one snapshot."""

    id: UUID
    revision: int
    max_attempts: int
    #: Of its intent, when it is queued.
    generation: int | None
    available_at: datetime | None
    is_paused: bool
    #: Of its lease, when it is active.
    lease_number: int | None
    expires_at: datetime | None
    is_expired: bool
    #: How many of its attempts count against the budget; None when it is terminal.
    charged: int | None
    last_number: int | None
    last_outcome: str | None
    report_head: str

    @property
    def words(self) -> str:
        return str(self.id)

    @property
    def error_class(self) -> str:
        """The exception of the last attempt, by the dotted name of its class; empty without any."""
        return error_class(self.report_head)


def facts_of(known: Facts) -> TaskFacts:
    """Return what lists and confirmations know of a task, from what its explanation rests on."""
    intent, lease, last = known.intent, known.lease, known.attempt
    charging = intent or lease
    return TaskFacts(
        id=known.task.id,
        outcome=known.task.outcome,
        is_queued=intent is not None,
        is_active=lease is not None,
        revision=known.task.revision,
        max_attempts=known.task.max_attempts,
        generation=intent.generation if intent else None,
        available_at=intent.available_at if intent else None,
        is_later=intent is not None and not known.is_due,
        is_paused=known.queue.paused_at is not None,
        lease_number=lease.number if lease else None,
        expires_at=lease.expires_at if lease else None,
        is_expired=lease is not None and lease.expires_at <= known.at,
        is_cancel_requested=lease is not None and lease.cancel_requested_at is not None,
        charged=charging.charged if charging else None,
        last_number=last.number if last else None,
        last_outcome=last.outcome if last else None,
        report_head=(last and last.report_head) or "",
    )


def find_tasks(ids: Iterable[UUID]) -> dict[str, TaskFacts]:
    """Look at tasks, by id as text. Those that do not exist are left out."""
    rows = sql.run("describe_tasks", get_settings().database, {"tasks": list(ids)})
    return {
        str(row[0]): TaskFacts(
            id=row[0],
            outcome=row[1],
            is_queued=row[4] is not None,
            is_active=row[8] is not None,
            revision=row[2],
            max_attempts=row[3],
            generation=row[4],
            available_at=row[5],
            is_later=bool(row[6]),
            is_paused=row[7],
            lease_number=row[8],
            expires_at=row[9],
            is_expired=bool(row[10]),
            is_cancel_requested=bool(row[11]),
            charged=row[12],
            last_number=row[13],
            last_outcome=row[14],
            report_head=row[15] or "",
        )
        for row in rows
    }


def survey_tasks(ids: Iterable[UUID]) -> list[tuple[TaskKind, int]]:
    """Tell which kinds of tasks there are among thousands, and how many of each. What does not exist is left out."""
    rows = sql.run("survey_tasks", get_settings().database, {"tasks": list(ids)})
    return [
        (
            TaskKind(
                outcome=outcome,
                is_queued=is_queued,
                is_later=is_later,
                is_active=is_active,
                is_cancel_requested=is_cancel_requested,
            ),
            count,
        )
        for outcome, is_queued, is_later, is_active, is_cancel_requested, count in rows
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """Whether a queue hands out its work, and how often that was changed."""

    words: str
    is_paused: bool
    revision: int


def find_queues(ids: Sequence[int]) -> dict[str, QueueFacts]:
    """Look at queues, by id as text. Those that do not exist are left out."""
    rows = Queue.objects.using(get_settings().database).filter(pk__in=ids)
    return {
        str(row.pk): QueueFacts(words=_words(row), is_paused=row.paused_at is not None, revision=row.revision)
        for row in rows
    }


def _words(queue: Queue) -> str:
    if queue.paused_at is None:
        return queue.name
    since = clock_time(queue.paused_at)
    facts = {"queue": queue.name, "who": queue.paused_by, "since": since, "why": queue.pause_reason}
    return _("%(queue)s, paused by %(who)s since %(since)s: “%(why)s”") % facts


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """Whether a worker session is over, and whether its worker is to drain."""

    words: str
    is_ended: bool
    is_draining: bool


def find_sessions(ids: Sequence[UUID]) -> dict[str, SessionFacts]:
    """Look at worker sessions, by id as text. Those that do not exist are left out."""
    # Any: rows with an annotation.
    rows: Any = WorkerSession.objects.using(get_settings().database).filter(pk__in=ids).with_state()
    return {
        str(row.pk): SessionFacts(
            words=str(row),
            is_ended=row.state == WorkerSession.State.ENDED,
            is_draining=row.drain_requested_at is not None,
        )
        for row in rows
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFacts:
    """Whether an operator's action is applied in chunks, and not done yet."""

    words: str
    is_running: bool


def find_operator_actions(ids: Sequence[UUID]) -> dict[str, ActionFacts]:
    """Look at operator actions, by id as text. Those that do not exist are left out."""
    rows = OperatorAction.objects.using(get_settings().database).filter(pk__in=ids)
    return {
        str(row.pk): ActionFacts(words=str(row), is_running=row.state == OperatorAction.State.RUNNING) for row in rows
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFacts:
    """Whether a token was revoked."""

    words: str
    is_revoked: bool


def find_tokens(ids: Sequence[int]) -> dict[str, TokenFacts]:
    """Look at tokens, by id as text. Those that do not exist are left out."""
    rows = ApiToken.objects.using(get_settings().database).filter(pk__in=ids)
    return {str(row.pk): TokenFacts(words=str(row), is_revoked=row.revoked_at is not None) for row in rows}
