"""Operator actions: who did what to which rows, and why."""

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy

from ledgence.admin.base import LedgerAdmin, moment_of
from ledgence.admin.display import badge, link
from ledgence.admin.filters import WordFilter
from ledgence.conf import get_settings
from ledgence.models import ApiToken, OperatorAction, OperatorActionTarget, Queue, Task
from ledgence.tokens import PUBLIC_ID

Kind = OperatorAction.Kind


class KindFilter(WordFilter):
    title = gettext_lazy("kind")
    parameter_name = "kind"
    words = dict(Kind.choices)

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        return rows.filter(kind=word)


@admin.register(OperatorAction)
class OperatorActionAdmin(LedgerAdmin):
    ordering = ("-acted_at", "-pk")
    list_display = ("acted", "kind_shown", "actor_name", "rows", "reason_shown")
    list_filter = (KindFilter,)
    search_fields = ("id",)
    search_help_text = gettext_lazy(
        "An action's id, the id of a row it named (a token's public id), or an operator's name, in full."
    )

    acted = moment_of("acted_at", gettext_lazy("acted at"))

    fieldsets = ((None, {"fields": ("kind_shown", "acted", "actor_name", "reason", "id")}),)

    def search(self, request: HttpRequest, rows: Any, term: str) -> Any:
        try:
            wanted = UUID(term)
        except ValueError:
            named = OperatorActionTarget.objects.filter(target=term).values("action")
            return rows.filter(pk__in=named) if PUBLIC_ID.fullmatch(term) else rows.filter(actor_name=term)
        named = OperatorActionTarget.objects.filter(target=str(wanted)).values("action")
        return rows.filter(Q(pk=wanted) | Q(pk__in=named))

    def describe_rows(self, rows: list[Any]) -> list[Any]:
        targets = OperatorActionTarget.objects.using(get_settings().database).filter(
            action__in=[row.pk for row in rows]
        )
        counts = dict(targets.values_list("action").annotate(count=Count("pk")))
        for row in rows:
            row.target_count = counts.get(row.pk, 0)
        return rows

    def get_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        targets = OperatorActionTarget.objects.using(get_settings().database).filter(action=obj.pk).order_by("pk")
        links = _links(obj.kind, [row.target for row in targets])
        return {
            "targets": [(links[row.target], row.expected_revision, _answer(obj.kind, row.answer)) for row in targets]
        }

    @admin.display(description=gettext_lazy("action"))
    def kind_shown(self, action: Any) -> Any:
        return badge("later", action.get_kind_display())

    @admin.display(description=gettext_lazy("rows"))
    def rows(self, action: Any) -> Any:
        return action.target_count

    @admin.display(description=gettext_lazy("reason"))
    def reason_shown(self, action: Any) -> Any:
        return Truncator(action.reason).chars(100)


def _links(kind: str, targets: list[str]) -> dict[str, Any]:
    """Render the rows that an action of a kind named, each as a link to its page; a token is named by its public id."""
    if kind in (Kind.ISSUE_TOKEN, Kind.REVOKE_TOKEN):
        tokens = ApiToken.objects.using(get_settings().database).filter(public_id__in=targets)
        found = {public_id: link(ApiToken, pk, public_id) for public_id, pk in tokens.values_list("public_id", "pk")}
        return {target: found.get(target, target) for target in targets}
    model = Queue if kind in (Kind.PAUSE, Kind.RESUME) else Task
    return {target: link(model, target, target) for target in targets}


def _answer(kind: str, answer: str) -> Any:
    """Render an answer; that to a copy is the new task."""
    return link(Task, answer, answer) if kind == Kind.COPY and answer != "not_found" else answer
