"""Leases: who holds authority now, the next to expire first."""

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import DurationField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ledgence.admin.base import LedgerAdmin, moment_of
from ledgence.admin.display import badge, join, link, short, span
from ledgence.admin.filters import QueueFilter, WordFilter
from ledgence.admin.history import find_actions, worker_link
from ledgence.admin.task_actions import CANCEL, FORCE_EXPIRE
from ledgence.models import Lease, Task, WorkerSession
from ledgence.models.session import session_state, silent_after

WORKERS = {
    WorkerSession.State.SILENT: gettext_lazy("worker silent"),
    WorkerSession.State.ENDED: gettext_lazy("worker ended"),
}


class LeaseStateFilter(WordFilter):
    """A live worker renews each lease every quarter of its length: what has less than a half left was not renewed."""

    title = gettext_lazy("state")
    parameter_name = "state"
    words = {
        "expired": gettext_lazy("expired"),
        "expiring": gettext_lazy("expiring"),
        "silent": gettext_lazy("worker silent"),
        "live": gettext_lazy("not expired"),
    }

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        match word:
            case "expired":
                return rows.filter(expires_at__lte=Now())
            case "expiring":
                return rows.filter(expires_at__gt=Now(), expires_at__lte=Now() + silent_after())
            case "silent":
                return rows.filter(session__in=WorkerSession.objects.silent())
        return rows.filter(expires_at__gt=Now())


@admin.register(Lease)
class LeaseAdmin(LedgerAdmin):
    confirmed = (FORCE_EXPIRE, CANCEL)
    ordering = ("expires_at", "pk")
    list_select_related = ("session", "queue", "program")
    list_display = ("attempt", "expiry", "expires", "program", "queue", "worker", "bound", "cancel_requested")
    list_filter = (LeaseStateFilter, QueueFilter)
    search_fields = ("task",)
    search_help_text = gettext_lazy("A task's or a worker session's id in full.")

    expires = moment_of("expires_at", gettext_lazy("expires at"))
    bound = moment_of("bound_at", gettext_lazy("cannot outlast"))
    cancel_requested = moment_of("cancel_requested_at", gettext_lazy("cancel requested at"))

    fieldsets = (
        (
            None,
            {
                "fields": (
                    "expiry",
                    ("task_link", "number", "worker"),
                    ("program_name", "queue", "priority", "charged"),
                    ("expires", "bound", "cancel_requested"),
                )
            },
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        left = ExpressionWrapper(F("expires_at") - Now(), output_field=DurationField())
        rows: QuerySet[Any] = (
            super().get_queryset(request).annotate(left=left, session_state=session_state("session__"))
        )
        return rows

    def search(self, request: HttpRequest, rows: Any, term: str) -> Any:
        wanted = UUID(term)
        return rows.filter(Q(pk=wanted) | Q(session=wanted))

    def get_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        return {"operator_actions": find_actions(obj.pk)}

    @admin.display(description=gettext_lazy("lease"))
    def attempt(self, lease: Any) -> Any:
        return short(lease.pk, lease.number)

    @admin.display(description=gettext_lazy("state"))
    def expiry(self, lease: Any) -> Any:
        words = {"time": span(lease.left)}
        if lease.left.total_seconds() <= 0:
            state = badge("warning", _("expired %(time)s ago") % words)
        else:
            state = badge("active", _("expires in %(time)s") % words)
        return join(
            [
                state,
                lease.session_state in WORKERS and badge("warning", WORKERS[lease.session_state]),
                lease.cancel_requested_at and badge("warning", _("asked to stop")),
            ]
        )

    @admin.display(description=gettext_lazy("task"))
    def task_link(self, lease: Any) -> Any:
        return join([link(Task, lease.pk, lease.pk), link(Task, lease.pk, _("Why does it not end?"))])

    @admin.display(description=gettext_lazy("worker"))
    def worker(self, lease: Any) -> Any:
        return worker_link(lease.session)

    @admin.display(description=gettext_lazy("program"))
    def program_name(self, lease: Any) -> Any:
        return str(lease.program)
