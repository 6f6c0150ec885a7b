"""Attempts: every grant of authority, and what came of it."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ledgence.admin.base import LedgerAdmin, moment_of
from ledgence.admin.bounds import among, newest
from ledgence.admin.display import NOTHING, SHOWN, badge, join, json_column, link, moment, short
from ledgence.admin.filters import WordFilter
from ledgence.admin.history import describe, outcome_badge, ran_for, with_reports, worker_link
from ledgence.admin.paging import CAP
from ledgence.admin.redaction import data_of, secrets_of
from ledgence.admin.reports import report_head
from ledgence.conf import get_settings
from ledgence.models import Attempt, Lease, Task
from ledgence.reported import error_class

LATE = "late"


class OutcomeFilter(WordFilter):
    """No index knows outcomes: claim and settlement would pay for it. The newest attempts are looked through."""

    title = gettext_lazy("outcome")
    parameter_name = "outcome"
    words = {**dict(Attempt.Outcome.choices), LATE: gettext_lazy("with a late report")}

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        recent = rows.filter(newest(Attempt))
        return recent.filter(late_outcome__isnull=False) if word == LATE else recent.filter(outcome=word)


@admin.register(Attempt)
class AttemptAdmin(LedgerAdmin):
    ordering = ("-pk",)
    deferred = ("report", "result", "late_report", "late_result", "settlement", "late_settlement")
    list_select_related = ("session",)
    list_display = ("name", "outcome_shown", "error", "cause", "worker", "claimed", "held_for", "task_link")
    list_filter = (OutcomeFilter,)
    search_fields = ("id",)
    search_help_text = gettext_lazy("A task's id in full.")
    narrowed_note = format_lazy(gettext_lazy("Outcomes are sought in the newest {cap} attempts."), cap=f"{CAP:,}")
    claimed = moment_of("claimed_at", gettext_lazy("claimed at"))
    authorized = moment_of("authorized_at", gettext_lazy("authorized at"))
    lease_until = moment_of("lease_expires_at", gettext_lazy("last lease expiry"))
    finished = moment_of("finished_at", gettext_lazy("finished at"))
    late = moment_of("late_at", gettext_lazy("late report at"))
    available = moment_of("available_at", gettext_lazy("available at"))
    first_published = moment_of("first_published_at", gettext_lazy("first published at"))
    last_published = moment_of("last_published_at", gettext_lazy("last published at"))

    fieldsets = (
        (None, {"fields": ("outcome_shown", ("task_link", "number", "cause"), "worker")}),
        (
            gettext_lazy("Times"),
            {"fields": (("claimed", "authorized", "lease_until"), ("finished", "held_for", "late"))},
        ),
        (
            gettext_lazy("Delivery"),
            {
                "classes": ("collapse",),
                "fields": (
                    "delivery_mode",
                    "destination",
                    "available",
                    "publication_id",
                    "publications",
                    "first_published",
                    "last_published",
                ),
            },
        ),
        (gettext_lazy("Refused results"), {"classes": ("collapse",), "fields": ("result_text", "late_result_text")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request).annotate(report_head=report_head("report"))
        return rows

    def search(self, request: HttpRequest, rows: Any, term: str) -> Any:
        # In no order, or the planner may prefer to walk all attempts in that order.
        return rows.filter(among(Attempt.objects.filter(task=UUID(term)).values("pk")))

    def describe_row(self, row: Any) -> Any:
        row.lease_over_at = _lease_over_at(row)
        return row

    def get_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        row = with_reports(self.get_queryset(request).filter(pk=obj.pk)).select_related("session").get()
        secrets = secrets_of(data_of(row.task_id))
        return {"story": describe(row, limit=SHOWN, secrets=secrets)}

    @admin.display(description=gettext_lazy("attempt"))
    def name(self, attempt: Any) -> Any:
        return short(attempt.task_id, attempt.number)

    @admin.display(description=gettext_lazy("outcome"))
    def outcome_shown(self, attempt: Any) -> Any:
        # Lists do not look at leases.
        if over_at := getattr(attempt, "lease_over_at", None):
            return join([badge("warning", _("lease expired")), moment(over_at)])
        return join([outcome_badge(attempt.outcome), attempt.late_outcome and badge("warning", _("late report"))])

    @admin.display(description=gettext_lazy("error"))
    def error(self, attempt: Any) -> Any:
        return error_class(attempt.report_head or "").rpartition(".")[2] or NOTHING

    @admin.display(description=gettext_lazy("task"))
    def task_link(self, attempt: Any) -> Any:
        return link(Task, attempt.task_id, short(attempt.task_id))

    @admin.display(description=gettext_lazy("worker"))
    def worker(self, attempt: Any) -> Any:
        return worker_link(attempt.session)

    @admin.display(description=gettext_lazy("held for"))
    def held_for(self, attempt: Any) -> Any:
        return ran_for(attempt)

    @admin.display(description=gettext_lazy("result after a cancel request"))
    def result_text(self, attempt: Any) -> Any:
        return json_column(Attempt, attempt.pk, "result")

    @admin.display(description=gettext_lazy("late result"))
    def late_result_text(self, attempt: Any) -> Any:
        return json_column(Attempt, attempt.pk, "late_result")


def _lease_over_at(attempt: Attempt) -> datetime | None:
    """Return when the lease of an attempt was over that nobody has ended; None where it goes on, or has ended."""
    if attempt.outcome is not None:
        return None
    leases = Lease.objects.using(get_settings().database).filter(pk=attempt.task_id, number=attempt.number)
    return leases.filter(expires_at__lte=Now()).values_list("expires_at", flat=True).first()
