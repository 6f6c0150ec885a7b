"""Worker sessions: which processes there are and were, and what they hold."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db.models import Count, Max, Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ledgence.admin.actions import DRAIN
from ledgence.admin.base import LedgerAdmin, moment_of
from ledgence.admin.display import NOTHING, badge, join, moment, span
from ledgence.admin.filters import WordFilter
from ledgence.admin.history import find_actions
from ledgence.conf import get_settings
from ledgence.models import Channel, Lease, WorkerSession
from ledgence.wording import clock_time

#: How many leases a session's page shows.
LEASES_SHOWN = 100

#: How many programs the list names of what a worker runs.
PROGRAMS_SHOWN = 3

State = WorkerSession.State
KINDS = {State.LIVE: "active", State.SILENT: "warning", State.ENDED: "later"}


class SessionStateFilter(WordFilter):
    """Ended sessions grow in number for ever, and are rarely what is looked for."""

    title = gettext_lazy("state")
    parameter_name = "state"
    words = {**dict(State.choices), "all": gettext_lazy("all")}

    def choices(self, changelist: Any) -> Iterator[Any]:
        default, *others = super().choices(changelist)
        yield {**default, "display": _("not ended")}
        yield from others

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return super().queryset(request, queryset) if self.value() else self.narrow(request, queryset, "open")

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        narrowed: QuerySet[Any] = rows if word == "all" else getattr(rows, word)()
        return narrowed


@admin.register(WorkerSession)
class WorkerSessionAdmin(LedgerAdmin):
    confirmed = (DRAIN,)
    ordering = ("-opened_at", "-pk")
    list_display = (
        "process",
        "state",
        "held",
        "running",
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
    drain_asked = moment_of("drain_requested_at", gettext_lazy("drain requested at"))

    fieldsets = (
        (None, {"fields": ("state", ("name", "host", "pid", "version"), ("held", "running", "last_command"))}),
        (gettext_lazy("Serves"), {"fields": (("tenant", "namespace"), "queue_names")}),
        (gettext_lazy("Times"), {"fields": (("opened", "expires", "closed", "drain_asked"),)}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: Any = super().get_queryset(request)
        with_state: QuerySet[Any] = rows.with_state().annotate(now=Now())
        return with_state

    def search(self, request: HttpRequest, rows: Any, term: str) -> Any:
        return rows.filter(Q(name=term) | Q(host=term))

    def describe_rows(self, rows: list[Any]) -> list[Any]:
        using, ids = get_settings().database, [row.pk for row in rows]
        leases = Lease.objects.using(using).filter(session__in=ids)
        held = count_programs(leases)
        expired = dict(leases.expired().values("session").annotate(count=Count("pk")).values_list("session", "count"))
        channels = Channel.objects.using(using).filter(session__in=ids).values("session")
        heard = dict(channels.annotate(last=Max("answered_at")).values_list("session", "last"))
        for row in rows:
            row.programs_held, row.expired_count = held[row.pk], expired.get(row.pk, 0)
            # Between two extensions it may have asked for work.
            row.heard_at = max(filter(None, (row.opened_at, row.extended_at, heard.get(row.pk))))
        return rows

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None or obj.state != State.SILENT:
            return self.fieldsets
        return (self.fieldsets[0], (gettext_lazy("What to do"), {"fields": ("advice",)}), *self.fieldsets[1:])

    def get_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        leases = Lease.objects.using(get_settings().database).filter(session=obj.pk)
        shown = {"operator_actions": find_actions(obj.pk)}
        return shown | {"leases": leases.select_related("program", "queue").order_by("expires_at", "pk")[:LEASES_SHOWN]}

    @admin.display(description=gettext_lazy("worker"))
    def process(self, session: Any) -> Any:
        return format_html('<span title="{}">{}</span>', session, session.name)

    @admin.display(description=gettext_lazy("tenant / namespace"))
    def scope(self, session: Any) -> Any:
        return f"{session.tenant} / {session.namespace}"

    @admin.display(description=gettext_lazy("state"))
    def state(self, session: Any) -> Any:
        count = session.expired_count
        expired = ngettext("%(count)d lease expired", "%(count)d leases expired", count) % {"count": count}
        drains = session.drain_requested_at and session.state != State.ENDED
        return join(
            [
                badge(KINDS[session.state], State(session.state).label),
                drains and badge("later", _("drains")),
                count and badge("warning", expired),
            ]
        )

    @admin.display(description=gettext_lazy("what it means"))
    def advice(self, session: Any) -> Any:
        leases = Lease.objects.using(get_settings().database).filter(session=session.pk)
        last = leases.aggregate(last=Max("expires_at"))["last"]
        words = {"time": span(session.now - session.heard_at), "last": clock_time(last) if last else ""}
        told = _("Not heard of for %(time)s; it holds no lease.")
        if last:
            told = _("Not heard of for %(time)s; the last of its leases expires at %(last)s.")
        advice = _(
            "Its worker died, hangs, or cannot reach the task service, so that it would not hear of a drain either. "
            "Look at its machine, and start another: manage.py ledgence_worker, or ledgence-worker connect. What it "
            "holds is tried again when the leases are over, while some process does the housekeeping."
        )
        return f"{told % words} {advice}"

    @admin.display(description=gettext_lazy("leases"))
    def held(self, session: Any) -> Any:
        words = {"held": session.programs_held.total(), "slots": session.concurrency}
        return _("%(held)d of %(slots)d slots") % words

    @admin.display(description=gettext_lazy("runs now"))
    def running(self, session: Any) -> Any:
        programs = session.programs_held.most_common()
        shown = [f"{count} × {name}" if count > 1 else name for name, count in programs[:PROGRAMS_SHOWN]]
        if left := len(programs) - len(shown):
            shown.append(ngettext("%(count)d other program", "%(count)d other programs", left) % {"count": left})
        return ", ".join(shown) or NOTHING

    @admin.display(description=gettext_lazy("last heard of"))
    def last_command(self, session: Any) -> Any:
        return moment(session.heard_at)

    @admin.display(description=gettext_lazy("queues"))
    def queue_names(self, session: Any) -> Any:
        served = ", ".join(session.queues) or _("all")
        if not session.exclude_queues:
            return served
        return _("%(served)s, except %(excluded)s") % {"served": served, "excluded": ", ".join(session.exclude_queues)}


def count_programs(leases: QuerySet[Lease]) -> defaultdict[Any, Counter[str]]:
    """Count leases by session and program."""
    counts: defaultdict[Any, Counter[str]] = defaultdict(Counter)
    for session, program, count in leases.values_list("session", "program__name").annotate(count=Count("pk")):
        counts[session][program] = count
    return counts
