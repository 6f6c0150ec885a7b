"""Delivery intents: the work that is ready, and whether anybody takes it."""

from typing import Any

from django.contrib import admin
from django.db.models import DurationField, ExpressionWrapper, F, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ledgence.admin.actions import CANCEL, REPUBLISH
from ledgence.admin.base import LedgerAdmin, moment_of
from ledgence.admin.display import badge, join, link, short, span
from ledgence.admin.filters import QueueFilter, WordFilter
from ledgence.admin.history import find_actions, find_events
from ledgence.models import DeliveryIntent, Task


class StuckFilter(WordFilter):
    title = gettext_lazy("state")
    parameter_name = "stuck"
    words = {"yes": gettext_lazy("stuck")}

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        return rows.stuck()  # type: ignore[attr-defined,no-any-return]


@admin.register(DeliveryIntent)
class DeliveryIntentAdmin(LedgerAdmin):
    confirmed = (REPUBLISH, CANCEL)
    ordering = ("-pk",)
    list_select_related = ("queue", "program")
    list_display = (
        "intent",
        "readiness",
        "available",
        "program",
        "queue",
        "priority",
        "cause",
        "publications",
        "next_publication",
    )
    list_filter = (StuckFilter, QueueFilter)
    search_fields = ("task",)
    search_help_text = gettext_lazy("A task's id in full.")
    narrowed_note = gettext_lazy(
        "Stuck: the queue is not paused, and the work is due for more than a minute without anybody taking it; or, of "
        "a queue with a broker, its announcement is late, or was made five times in vain."
    )

    available = moment_of("available_at", gettext_lazy("available at"))
    first_published = moment_of("first_published_at", gettext_lazy("first published at"))
    last_published = moment_of("last_published_at", gettext_lazy("last published at"))
    next_publication = moment_of("next_publish_at", gettext_lazy("next publication at"))

    fieldsets = (
        (
            None,
            {
                "fields": (
                    "readiness",
                    ("task_link", "generation", "cause", "charged"),
                    ("program_name", "queue", "priority", "available"),
                )
            },
        ),
        (
            gettext_lazy("Publication"),
            {
                "fields": (
                    ("epoch", "publications", "publication_id"),
                    ("first_published", "last_published", "next_publication"),
                )
            },
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        waited = ExpressionWrapper(Now() - F("available_at"), output_field=DurationField())
        rows: QuerySet[Any] = super().get_queryset(request).annotate(waited=waited)
        return rows

    def get_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        return {"events": find_events(obj.pk), "operator_actions": find_actions(obj.pk)}

    @admin.display(description=gettext_lazy("intent"))
    def intent(self, intent: Any) -> Any:
        return short(intent.pk, intent.generation)

    @admin.display(description=gettext_lazy("state"))
    def readiness(self, intent: Any) -> Any:
        words = {"time": span(intent.waited)}
        is_due = intent.waited.total_seconds() >= 0
        return join(
            [
                badge("queued", _("due for %(time)s") % words)
                if is_due
                else badge("later", _("due in %(time)s") % words),
                intent.queue.paused_at and badge("warning", _("queue paused")),
            ]
        )

    @admin.display(description=gettext_lazy("task"))
    def task_link(self, intent: Any) -> Any:
        return link(Task, intent.pk, intent.pk)

    @admin.display(description=gettext_lazy("program"))
    def program_name(self, intent: Any) -> Any:
        return str(intent.program)
