"""What happened to one task: its attempts, its deliveries, and what operators did to it, the newest of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils.html import format_html
from django.utils.translation import gettext as _

from ledgence.admin.display import NOTHING, badge, join, link, moment, span
from ledgence.admin.reports import Block, report_blocks, report_text
from ledgence.conf import get_settings
from ledgence.models import Attempt, DeliveryEvent, OperatorActionTarget, WorkerSession
from ledgence.reported import error_class

#: How many of each a task's page shows; lists show the rest.
NEWEST = 50
#: How much of a report's part stands on a task's page; the attempt's own page shows more.
BRIEF = 8 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStory:
    """One attempt in words: a headline, facts as (label, value), and blocks of reported text."""

    attempt: Attempt
    headline: Any
    facts: Sequence[tuple[str, Any]]
    blocks: Sequence[Block]
    #: Whether something went wrong that an operator comes to read.
    is_telling: bool


def with_reports(attempts: QuerySet[Attempt]) -> QuerySet[Attempt]:
    """Add what is shown of the reports as text, cut by the database."""
    return attempts.annotate(report_text=report_text("report"), late_report_text=report_text("late_report"))


def outcome_badge(outcome: str | None) -> Any:
    """Render an attempt's outcome; none means that it runs."""
    return badge(outcome or "active", Attempt.Outcome(outcome).label if outcome else _("active"))


def worker_link(session: WorkerSession | None) -> Any:
    """Render a session by its worker's name, with host and process as title."""
    if session is None:
        return NOTHING
    return link(WorkerSession, session.pk, format_html('<span title="{}">{}</span>', session, session.name))


def ran_for(attempt: Attempt) -> str:
    """Say how long an attempt held authority."""
    if attempt.claimed_at is None or attempt.finished_at is None:
        return span(None)
    return span(attempt.finished_at - attempt.claimed_at)


def describe(attempt: Any, *, limit: int) -> AttemptStory:
    """Put an attempt that with_reports() read into words."""
    blocks = list(report_blocks(attempt.report_text, limit=limit))
    if attempt.late_outcome:
        late = _("Late report: %(outcome)s") % {"outcome": Attempt.Outcome(attempt.late_outcome).label}
        blocks += [(f"{late}, {label}", html) for label, html in report_blocks(attempt.late_report_text, limit=limit)]
    session = attempt.session
    return AttemptStory(
        attempt=attempt,
        headline=join([outcome_badge(attempt.outcome), error_class(attempt.report_text or "")]),
        facts=[
            (_("Cause"), attempt.cause),
            (_("Worker"), link(WorkerSession, session.pk, session) if session else _("never claimed")),
            (_("Available"), moment(attempt.available_at)),
            (_("Claimed"), moment(attempt.claimed_at)),
            (_("Authorized"), moment(attempt.authorized_at)),
            (_("Finished"), moment(attempt.finished_at)),
            (_("Held for"), ran_for(attempt)),
            (_("Lease until"), moment(attempt.lease_expires_at)),
            (_("Late report"), _late(attempt)),
        ],
        blocks=blocks,
        is_telling=bool(attempt.outcome and attempt.outcome != "succeeded") or bool(attempt.late_outcome),
    )


def _late(attempt: Attempt) -> Any:
    if not attempt.late_outcome:
        return _("none")
    return join(
        [outcome_badge(attempt.late_outcome), moment(attempt.late_at), _("came after authority was lost: refused")]
    )


def find_attempts(task: UUID) -> list[AttemptStory]:
    """Return the newest attempts of a task, the last one first."""
    rows = with_reports(Attempt.objects.using(get_settings().database).filter(task_id=task))
    rows = rows.select_related("session").defer("report", "result", "late_report", "late_result")
    return [describe(row, limit=BRIEF) for row in rows.order_by("-number")[:NEWEST]]


def find_events(task: UUID) -> list[DeliveryEvent]:
    """Return the newest failed sends, repairs and republications of a task."""
    return list(DeliveryEvent.objects.using(get_settings().database).filter(task_id=task).order_by("-pk")[:NEWEST])


def find_actions(target: Any) -> list[OperatorActionTarget]:
    """Return the newest operator actions that named a row, each with its action."""
    rows = OperatorActionTarget.objects.using(get_settings().database).filter(target=str(target))
    return list(rows.select_related("action").order_by("-pk")[:NEWEST])
