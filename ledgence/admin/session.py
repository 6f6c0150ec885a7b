"""Worker sessions: which processes there are and were, and what they hold."""

from typing import Any

from django.contrib import admin
from django.db.models import Case, CharField, Count, Max, Q, QuerySet, Value, When
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ledgence.admin.base import LedgerAdmin, moment_of
from ledgence.admin.display import badge, join, moment
from ledgence.admin.filters import WordFilter
from ledgence.conf import get_settings
from ledgence.models import Channel, Lease, WorkerSession

#: How many leases a session's page shows.
LEASES_SHOWN = 100

WORDS = {
    "open": gettext_lazy("open"),
    "expired": gettext_lazy("expired"),
    "closed": gettext_lazy("closed"),
}


class SessionStateFilter(WordFilter):
    title = gettext_lazy("state")
    parameter_name = "state"
    words = WORDS

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        return rows.filter(state_word=word)


@admin.register(WorkerSession)
class WorkerSessionAdmin(LedgerAdmin):
    ordering = ("-opened_at", "-pk")
    list_display = (
        "process",
        "state",
        "held",
        "last_command",
        "queue_names",
        "version",
        "opened",
        "scope",
    )
    list_filter = (SessionStateFilter,)
    search_fields = ("name",)
    search_help_text = gettext_lazy("A worker's name or host in full.")

    opened = moment_of("opened_at", gettext_lazy("opened at"))
    expires = moment_of("expires_at", gettext_lazy("expires at"))
    closed = moment_of("closed_at", gettext_lazy("closed at"))

    fieldsets = (
        (None, {"fields": ("state", ("name", "host", "pid", "version"), ("held", "last_command"))}),
        (gettext_lazy("Serves"), {"fields": (("tenant", "namespace"), "queue_names")}),
        (gettext_lazy("Times"), {"fields": (("opened", "expires", "closed"),)}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        word = Case(
            When(closed_at__isnull=False, then=Value("closed")),
            When(expires_at__lte=Now(), then=Value("expired")),
            default=Value("open"),
            output_field=CharField(),
        )
        rows: QuerySet[Any] = super().get_queryset(request).annotate(state_word=word)
        return rows

    def search(self, request: HttpRequest, rows: Any, term: str) -> Any:
        return rows.filter(Q(name=term) | Q(host=term))

    def describe_rows(self, rows: list[Any]) -> list[Any]:
        using, ids = get_settings().database, [row.pk for row in rows]
        leases = Lease.objects.using(using).filter(session__in=ids)
        held = _count_by_session(leases)
        expired = _count_by_session(leases.expired())
        channels = Channel.objects.using(using).filter(session__in=ids).values("session")
        heard = dict(channels.annotate(last=Max("answered_at")).values_list("session", "last"))
        for row in rows:
            row.held_count, row.expired_count = held.get(row.pk, 0), expired.get(row.pk, 0)
            row.heard_at = heard.get(row.pk)
        return rows

    def get_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        leases = Lease.objects.using(get_settings().database).filter(session=obj.pk)
        return {"leases": leases.select_related("program", "queue").order_by("expires_at", "pk")[:LEASES_SHOWN]}

    @admin.display(description=gettext_lazy("worker"))
    def process(self, session: Any) -> Any:
        return format_html('<span title="{}">{}</span>', session, session.name)

    @admin.display(description=gettext_lazy("tenant / namespace"))
    def scope(self, session: Any) -> Any:
        return f"{session.tenant} / {session.namespace}"

    @admin.display(description=gettext_lazy("state"))
    def state(self, session: Any) -> Any:
        kind = "active" if session.state_word == "open" else "later"
        count = session.expired_count
        silent = ngettext("%(count)d lease expired: silent", "%(count)d leases expired: silent", count)
        lost = count and badge("warning", silent % {"count": count})
        return join([badge(kind, WORDS[session.state_word]), lost])

    @admin.display(description=gettext_lazy("leases"))
    def held(self, session: Any) -> Any:
        return _("%(held)d of %(slots)d slots") % {"held": session.held_count, "slots": session.concurrency}

    @admin.display(description=gettext_lazy("last command"))
    def last_command(self, session: Any) -> Any:
        return moment(session.heard_at)

    @admin.display(description=gettext_lazy("queues"))
    def queue_names(self, session: Any) -> Any:
        served = ", ".join(session.queues) or _("all")
        if not session.exclude_queues:
            return served
        return _("%(served)s, except %(excluded)s") % {"served": served, "excluded": ", ".join(session.exclude_queues)}


def _count_by_session(leases: QuerySet[Lease]) -> dict[Any, int]:
    return dict(leases.values("session").annotate(count=Count("pk")).values_list("session", "count"))
