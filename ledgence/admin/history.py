"""What happened to one task: its attempts, its deliveries, and what operators did to it, the newest of each."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils.html import format_html
from django.utils.translation import gettext as _

from ledgence.admin.display import NOTHING, badge, join, link, moment, span
from ledgence.admin.reports import Block, report_blocks, report_text
from ledgence.conf import get_settings
from ledgence.exit_status import name_exit
from ledgence.explanation import Facts
from ledgence.models import Attempt, DeliveryEvent, DeliveryIntent, OperatorActionTarget, WorkerSession
from ledgence.reported import Reported, read_head
from ledgence.wording import visible

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


def describe(
    attempt: Any, *, limit: int, secrets: Collection[str], lease_over_at: datetime | None = None
) -> AttemptStory:
    """Put an attempt that with_reports() read into words, without the secrets of its task.

    ``lease_over_at`` is when the lease was over of an attempt that nobody has ended.
    """
    is_over = attempt.outcome is None and lease_over_at is not None
    host = attempt.session.host if attempt.session else ""

    def parts(text: str | None, outcome: str | None) -> Iterator[Block]:
        return report_blocks(text, outcome=outcome, host=host, limit=limit, secrets=secrets)

    blocks = list(parts(attempt.report_text, attempt.outcome))
    if attempt.late_outcome:
        late = _("Late report: %(outcome)s") % {"outcome": Attempt.Outcome(attempt.late_outcome).label}
        blocks += [(f"{late}, {label}", html) for label, html in parts(attempt.late_report_text, attempt.late_outcome)]
    return AttemptStory(
        attempt=attempt,
        headline=join(
            [
                badge("warning", _("lease expired")) if is_over else outcome_badge(attempt.outcome),
                is_over and moment(lease_over_at),
                _cause(read_head(attempt.report_text or "")),
                attempt.claimed_at and attempt.finished_at and ran_for(attempt),
                attempt.late_outcome and badge("warning", _("late report")),
            ]
        ),
        facts=[*_times(attempt, lease_over_at if is_over else None), *_delivery(attempt)],
        blocks=blocks,
        is_telling=bool(attempt.outcome and attempt.outcome != "succeeded") or bool(attempt.late_outcome),
    )


def _cause(told: Reported) -> str:
    """Name what ended an attempt: the exception, or the exit status of its process; empty where neither is told."""
    if told.error_class or told.exit_status is None:
        return told.error_name
    return _("exit status %(status)s") % {"status": name_exit(told.exit_status)}


def _times(attempt: Attempt, lease_over_at: datetime | None) -> Iterator[tuple[str, Any]]:
    """Yield where an attempt came from, who ran it, and when what happened."""
    session = attempt.session
    waited = None if attempt.claimed_at is None else attempt.claimed_at - attempt.available_at
    yield _("Cause"), cause_of(attempt.cause)
    yield _("Worker"), link(WorkerSession, session.pk, session) if session else _("never claimed")
    yield _("Available"), moment(attempt.available_at)
    yield _("Claimed"), moment(attempt.claimed_at)
    yield _("Waited for a worker"), span(waited)
    yield _("Authorized"), moment(attempt.authorized_at)
    yield _("Finished"), moment(attempt.finished_at)
    yield _("Held for"), ran_for(attempt)
    over = lease_over_at and badge("warning", _("lease expired"))
    yield _("Lease until"), join([moment(lease_over_at or attempt.lease_expires_at), over])
    if attempt.late_outcome:
        late = [outcome_badge(attempt.late_outcome), moment(attempt.late_at)]
        yield _("Late report"), join([*late, _("came after authority was lost: refused")])


def _delivery(attempt: Attempt) -> Iterator[tuple[str, Any]]:
    """Yield how an attempt was announced, where a broker did that."""
    if attempt.destination is None:
        return
    yield _("Destination"), attempt.destination
    yield _("Announced"), attempt.publications
    yield _("First announced"), moment(attempt.first_published_at)
    yield _("Last announced"), moment(attempt.last_published_at)


def cause_of(cause: str) -> Any:
    """Say in words why an attempt came to be."""
    if cause == "submitted":
        return _("submitted")
    if cause == "requeued":
        return _("requeued by an operator")
    known = {word.value: word.label for word in Attempt.Outcome}
    return _("the attempt before %(outcome)s") % {"outcome": known[cause]} if cause in known else cause


def describe_publication(known: Facts) -> list[tuple[str, Any]]:
    """Put the announcement of a queued task of an external queue into (label, value); empty for any other."""
    intent = known.intent
    if intent is None or not known.queue.is_external:
        return []
    next_word = _("Held by a publisher until") if intent.is_held else _("Next announcement")
    return [
        (_("Destination"), known.queue.destination),
        (_("Generation"), intent.generation),
        (_("Epoch"), intent.epoch),
        (_("Announced"), intent.publications),
        (_("First announced"), moment(intent.first_published_at)),
        (_("Last announced"), moment(intent.last_published_at)),
        (_("Confirmed by the broker"), moment(intent.confirmed_at)),
        (_("Refused in a row"), intent.refusals),
        (next_word, moment(intent.next_publish_at)),
        (_("Delivery intent"), link(DeliveryIntent, known.task.id, f"{known.task.id}.{intent.generation}")),
    ]


def find_attempts(task: UUID, *, secrets: Collection[str], lease_over_at: datetime | None = None) -> list[AttemptStory]:
    """Return the newest attempts of a task, the last one first, without the secrets of its data."""
    rows = with_reports(Attempt.objects.using(get_settings().database).filter(task_id=task))
    rows = rows.select_related("session").defer("report", "result", "late_report", "late_result")
    rows = rows.order_by("-number")[:NEWEST]
    return [describe(row, limit=BRIEF, secrets=secrets, lease_over_at=lease_over_at) for row in rows]


def find_events(task: UUID) -> list[Any]:
    """Return the newest failed sends, repairs and republications of a task, each with its reason as ``told``."""
    # By time: in the order of keys the planner may prefer to walk those of all tasks.
    rows = DeliveryEvent.objects.using(get_settings().database).filter(task_id=task).order_by("-happened_at", "-pk")
    events: list[Any] = list(rows[:NEWEST])
    for event in events:
        reason = event.detail.get("reason") if isinstance(event.detail, dict) else None
        event.told = visible(str(reason)) if reason else ""
    return events


def find_actions(target: Any) -> list[OperatorActionTarget]:
    """Return the newest operator actions that named a row, each with its action."""
    rows = OperatorActionTarget.objects.using(get_settings().database).filter(target=str(target))
    return list(rows.select_related("action").order_by("-pk")[:NEWEST])
