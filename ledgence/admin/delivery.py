"""Delivery intents: the work that is ready, and whether anybody takes it."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from django.contrib import admin
from django.db.models import BooleanField, DurationField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ledgence.admin.base import LedgerAdmin, moment_of
from ledgence.admin.bounds import among
from ledgence.admin.display import badge, join, link, short, span
from ledgence.admin.filters import QueueFilter, WordFilter
from ledgence.admin.history import find_actions, find_events
from ledgence.admin.task_actions import CANCEL, MOVE, REPUBLISH, RUN_NOW, SET_PRIORITY
from ledgence.conf import get_settings
from ledgence.models import DeliveryIntent, Publisher, Queue, Task
from ledgence.models.delivery import FAILING, UNCLAIMED
from ledgence.watch import unserved_work


class StuckFilter(WordFilter):
    title = gettext_lazy("stuck")
    parameter_name = "stuck"
    words = {
        "yes": gettext_lazy("for any cause"),
        "overdue": gettext_lazy("overdue"),
        "failing": gettext_lazy("announcement fails"),
        "unclaimed": gettext_lazy("announced, unclaimed"),
        "unserved": gettext_lazy("no worker or publisher"),
    }

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        using = get_settings().database
        parts = [unserved_intents(using)] if word == "unserved" else stuck_intents(CAUSES[word])
        return rows.filter(reduce(or_, (Q(among(part.values("pk"))) for part in parts)))


#: The causes that each word of the filter stands for: querysets of the model.
CAUSES = {
    "yes": ("untaken", "unannounced", "failing", "unclaimed"),
    "overdue": ("untaken", "unannounced"),
    "failing": ("failing",),
    "unclaimed": ("unclaimed",),
}


def stuck_intents(causes: Sequence[str] = CAUSES["yes"]) -> list[QuerySet[DeliveryIntent]]:
    """Return the intents that are stuck, by cause; one may have several."""
    return [getattr(DeliveryIntent.objects, cause)() for cause in causes]


def unserved_intents(using: str) -> QuerySet[DeliveryIntent]:
    """Return due intents for which nobody is alive: no worker has queue and program, or no publisher the queue."""
    published = Publisher.objects.using(using).live().values("queue")
    silent = Queue.objects.using(using).filter(mode=Queue.Mode.EXTERNAL).exclude(pk__in=published)
    conditions = Q(queue__in=list(silent.values_list("pk", flat=True)))
    for one in unserved_work(using):
        conditions |= Q(queue=one.queue_id, program=one.program_id)
    return DeliveryIntent.objects.waiting().filter(conditions)


@admin.register(DeliveryIntent)
class DeliveryIntentAdmin(LedgerAdmin):
    confirmed = (REPUBLISH, RUN_NOW, MOVE, SET_PRIORITY, CANCEL)
    ordering = ("-pk",)
    list_select_related = ("queue", "program")
    list_display = (
        "intent",
        "readiness",
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
        "a queue with a broker, its announcement is late, the broker refuses it, it was made five times in vain, or "
        "again because nobody claimed the work."
    )

    available = moment_of("available_at", gettext_lazy("available at"))
    first_published = moment_of("first_published_at", gettext_lazy("first published at"))
    last_published = moment_of("last_published_at", gettext_lazy("last published at"))
    next_publication = moment_of("next_publish_at", gettext_lazy("next publication at"))
    broker_has_it = moment_of("confirmed_at", gettext_lazy("confirmed by the broker at"))

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
                    ("broker_has_it", "refusals"),
                )
            },
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        waited = ExpressionWrapper(Now() - F("available_at"), output_field=DurationField())
        flags = {"is_failing": _flag(FAILING), "is_unclaimed": _flag(UNCLAIMED)}
        rows: QuerySet[Any] = super().get_queryset(request).annotate(waited=waited, **flags)
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
                intent.refusals and badge("failed", _("refused by the broker")),
                intent.is_failing and not intent.refusals and badge("failed", _("announced in vain")),
                intent.is_unclaimed and badge("warning", _("announced, unclaimed")),
            ]
        )

    @admin.display(description=gettext_lazy("task"))
    def task_link(self, intent: Any) -> Any:
        return join([link(Task, intent.pk, intent.pk), link(Task, intent.pk, _("Why is it not running?"))])

    @admin.display(description=gettext_lazy("program"))
    def program_name(self, intent: Any) -> Any:
        return str(intent.program)


def _flag(condition: Q) -> Any:
    return ExpressionWrapper(condition, output_field=BooleanField())
