"""Publishers: which processes announce the work of external queues, and what their brokers say."""

from typing import Any

from django.contrib import admin
from django.db.models import BooleanField, Case, QuerySet, Value, When
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ledgence.admin.base import LedgerAdmin, moment_of
from ledgence.admin.display import NOTHING, badge, join, link, span, text_block
from ledgence.admin.filters import WordFilter
from ledgence.models import Publisher, Queue
from ledgence.models.publisher import SILENT_AFTER
from ledgence.wording import visible


class PublisherStateFilter(WordFilter):
    title = gettext_lazy("state")
    parameter_name = "state"
    words = {"live": gettext_lazy("live"), "silent": gettext_lazy("silent"), "failing": gettext_lazy("broker fails")}

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        return rows.exclude(failure="") if word == "failing" else rows.filter(is_live=word == "live")


@admin.register(Publisher)
class PublisherAdmin(LedgerAdmin):
    ordering = ("-started_at", "-pk")
    list_select_related = ("queue",)
    list_display = ("process", "state", "queue_link", "turned", "answered", "failure_shown", "version", "started")
    list_filter = (PublisherStateFilter,)
    search_fields = ("host",)
    search_help_text = gettext_lazy("A host's or a queue's name in full.")

    started = moment_of("started_at", gettext_lazy("started at"))
    turned = moment_of("turned_at", gettext_lazy("last turn"))
    answered = moment_of("confirmed_at", gettext_lazy("broker answered at"))

    fieldsets = (
        (None, {"fields": ("state", ("host", "pid", "version"), ("queue_link", "destination"))}),
        (gettext_lazy("Times"), {"fields": (("started", "turned", "answered"),)}),
        (gettext_lazy("What goes wrong since the broker answered"), {"fields": ("failure_text",)}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        is_live = Case(
            When(turned_at__gt=Now() - SILENT_AFTER, then=Value(True)),
            default=Value(False),
            output_field=BooleanField(),
        )
        rows: QuerySet[Any] = super().get_queryset(request).annotate(is_live=is_live, now=Now())
        return rows

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None or obj.is_live:
            return self.fieldsets
        return (self.fieldsets[0], (gettext_lazy("What to do"), {"fields": ("advice",)}), *self.fieldsets[1:])

    def search(self, request: HttpRequest, rows: Any, term: str) -> Any:
        return rows.filter(host=term) | rows.filter(queue__name=term)

    @admin.display(description=gettext_lazy("publisher"))
    def process(self, publisher: Any) -> Any:
        return f"{publisher.host}:{publisher.pid}"

    @admin.display(description=gettext_lazy("state"))
    def state(self, publisher: Any) -> Any:
        return join(
            [
                badge("active", _("live")) if publisher.is_live else badge("warning", _("silent")),
                publisher.failure and badge("failed", _("broker fails")),
            ]
        )

    @admin.display(description=gettext_lazy("what it means"))
    def advice(self, publisher: Any) -> Any:
        words = {"time": span(publisher.now - publisher.turned_at), "queue": visible(publisher.queue.name)}
        advice = _(
            "Not heard of for %(time)s. It died, hangs, or cannot reach the database. Unless another publisher of its "
            "queue is live, nobody announces the queue's work: start manage.py ledgence_publisher --delivery-config "
            "FILE with its route, or give the queue back: manage.py ledgence_route %(queue)s --integrated --reason WHY."
        )
        return advice % words

    @admin.display(description=gettext_lazy("queue"))
    def queue_link(self, publisher: Any) -> Any:
        return link(Queue, publisher.queue_id, publisher.queue)

    @admin.display(description=gettext_lazy("destination"))
    def destination(self, publisher: Any) -> Any:
        return publisher.queue.destination or NOTHING

    @admin.display(description=gettext_lazy("failure"))
    def failure_shown(self, publisher: Any) -> Any:
        return visible(Truncator(publisher.failure).chars(80)) or NOTHING

    @admin.display(description=gettext_lazy("failure"))
    def failure_text(self, publisher: Any) -> Any:
        return text_block(publisher.failure) if publisher.failure else _("nothing")
