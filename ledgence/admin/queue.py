"""Queues: how much work waits, for how long, and whether it is handed out."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ledgence.admin.actions import PAUSE, RESUME
from ledgence.admin.base import LedgerAdmin
from ledgence.admin.display import NOTHING, badge, join, moment, span
from ledgence.admin.filters import WordFilter
from ledgence.admin.history import find_actions
from ledgence.admin.refresh import fragment_view
from ledgence.conf import get_settings
from ledgence.models import Publisher, Queue, State, WorkerSession
from ledgence.status import COUNT_CAP, find_loads


class PausedFilter(WordFilter):
    title = gettext_lazy("state")
    parameter_name = "paused"
    words = {"yes": gettext_lazy("paused"), "no": gettext_lazy("not paused")}

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        return rows.filter(paused_at__isnull=word == "no")


@admin.register(Queue)
class QueueAdmin(LedgerAdmin):
    confirmed = (PAUSE, RESUME)
    ordering = ("name", "pk")
    list_display = ("name", "state", "due", "oldest", "active", "served", "later", "route", "scope")
    list_filter = (PausedFilter,)
    search_fields = ("name",)
    search_help_text = gettext_lazy("A queue's name in full.")

    fieldsets = (
        (None, {"fields": ("state", ("name", "tenant", "namespace"), ("mode", "destination"))}),
        (gettext_lazy("Work"), {"fields": (("due", "oldest", "active", "later"), "served", "tasks")}),
    )

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(fragment_view)
        return [path("overview/", view, name="ledgence_queue_overview"), *super().get_urls()]

    def search(self, request: HttpRequest, rows: Any, term: str) -> Any:
        return rows.filter(name=term)

    def describe_rows(self, rows: list[Any]) -> list[Any]:
        loads = find_loads([queue.pk for queue in rows], using=get_settings().database)
        for queue in rows:
            queue.load = loads[queue.pk]
        count_servers(rows)
        return rows

    def get_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        return {"operator_actions": find_actions(obj.pk)}

    @admin.display(description=gettext_lazy("state"))
    def state(self, queue: Any) -> Any:
        if queue.paused_at is None:
            return badge("active", _("open"))
        why = _("by %(name)s: %(reason)s") % {"name": queue.paused_by, "reason": queue.pause_reason}
        until = [_("until"), moment(queue.paused_until)] if queue.paused_until else []
        return join([badge("warning", _("paused")), moment(queue.paused_at), *until, format_html("<br>{}", why)])

    @admin.display(description=gettext_lazy("tenant / namespace"))
    def scope(self, queue: Any) -> Any:
        return f"{queue.tenant} / {queue.namespace}"

    @admin.display(description=gettext_lazy("served by"))
    def served(self, queue: Any) -> Any:
        workers = ngettext("%(count)d live worker", "%(count)d live workers", queue.workers) % {"count": queue.workers}
        parts = [workers if queue.workers else badge("warning", _("no live worker"))]
        if queue.mode == Queue.Mode.EXTERNAL and not queue.publishers_alive:
            parts.append(badge("warning", _("no live publisher")))
        return join(parts)

    @admin.display(description=gettext_lazy("its tasks"))
    def tasks(self, queue: Any) -> Any:
        lists = (State.QUEUED, State.ACTIVE, State.FAILED)
        address = reverse("admin:ledgence_task_changelist")
        return join(
            format_html('<a href="{}?{}">{}</a>', address, urlencode({"queue": queue.pk, "state": state}), state.label)
            for state in lists
        )

    @admin.display(description=gettext_lazy("mode"))
    def route(self, queue: Any) -> Any:
        if queue.destination is None:
            return queue.get_mode_display()
        # The end of an address tells it apart: its beginning is the account's.
        shown = queue.destination if len(queue.destination) <= 30 else f"…{queue.destination[-30:]}"
        return format_html('{} <span title="{}">{}</span>', queue.get_mode_display(), queue.destination, shown)

    @admin.display(description=gettext_lazy("due"))
    def due(self, queue: Any) -> Any:
        return _capped(queue.load.due)

    @admin.display(description=gettext_lazy("oldest due for"))
    def oldest(self, queue: Any) -> Any:
        seconds = queue.load.oldest_due_seconds
        return NOTHING if seconds is None else span(timedelta(seconds=seconds))

    @admin.display(description=gettext_lazy("for later"))
    def later(self, queue: Any) -> Any:
        return _capped(queue.load.later)

    @admin.display(description=gettext_lazy("running"))
    def active(self, queue: Any) -> Any:
        return _capped(queue.load.active)


def count_servers(queues: Sequence[Any]) -> None:
    """Tell of each queue how many live workers serve it, and how many live publishers announce its work."""
    using = get_settings().database
    sessions = WorkerSession.objects.using(using).live()
    serving = list(sessions.values_list("tenant", "namespace", "queues", "exclude_queues"))
    publishers = Counter(Publisher.objects.using(using).live().values_list("queue", flat=True))
    for queue in queues:
        own = [(names, excluded) for *scope, names, excluded in serving if scope == [queue.tenant, queue.namespace]]
        queue.workers = sum((not names or queue.name in names) and queue.name not in out for names, out in own)
        queue.publishers_alive = publishers[queue.pk]


def _capped(count: int) -> str:
    return f"{COUNT_CAP:,}+" if count > COUNT_CAP else str(count)
