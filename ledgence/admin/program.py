"""Programs: what can be run, by name and version, and which workers have it."""

from collections import Counter
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ledgence.admin.base import LedgerAdmin
from ledgence.admin.display import badge
from ledgence.admin.filters import WordFilter
from ledgence.conf import get_settings
from ledgence.models import Program, WorkerSession


class WorkersFilter(WordFilter):
    """By what live workers say that they have: their sessions are few, so that they are read whole."""

    title = gettext_lazy("workers")
    parameter_name = "workers"
    words = {"yes": gettext_lazy("live workers have it"), "no": gettext_lazy("no live worker has it")}

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        known = list(count_workers())
        return rows.filter(pk__in=known) if word == "yes" else rows.exclude(pk__in=known)


@admin.register(Program)
class ProgramAdmin(LedgerAdmin):
    ordering = ("name", "-pk")
    list_display = ("name", "version", "worker_count", "entry", "tasks", "scope")
    list_filter = (WorkersFilter,)
    search_fields = ("name",)
    search_help_text = gettext_lazy("A program's name in full.")

    fieldsets = ((None, {"fields": (("name", "version"), ("tenant", "namespace"), "entry", "worker_count", "tasks")}),)

    def search(self, request: HttpRequest, rows: Any, term: str) -> Any:
        return rows.filter(name=term)

    def describe_rows(self, rows: list[Any]) -> list[Any]:
        counts = count_workers()
        for program in rows:
            program.workers = counts[program.pk]
        return rows

    @admin.display(description=gettext_lazy("entry point"))
    def entry(self, program: Any) -> Any:
        return program.entry_point or _("not known yet: no process that has the program was seen")

    @admin.display(description=gettext_lazy("live workers that have it"))
    def worker_count(self, program: Any) -> Any:
        return program.workers or badge("warning", _("none"))

    @admin.display(description=gettext_lazy("its tasks"))
    def tasks(self, program: Any) -> Any:
        address = reverse("admin:ledgence_task_changelist", current_app=self.admin_site.name)
        query = urlencode({"q": f"program:{program.name}"})
        return format_html('<a href="{}?{}">{}</a>', address, query, _("tasks of every version"))

    @admin.display(description=gettext_lazy("tenant / namespace"))
    def scope(self, program: Any) -> Any:
        return f"{program.tenant} / {program.namespace}"


def count_workers() -> Counter[int]:
    """Count the live workers that have each program."""
    catalogues = WorkerSession.objects.using(get_settings().database).live().values_list("programs", flat=True)
    return Counter(program for catalogue in catalogues for program in catalogue)
