"""Operator actions: who did what to which rows, and why; how far one is that runs in chunks, and how it is stopped."""

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.text import Truncator, format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ledgence.admin.actions import STOP
from ledgence.admin.base import LedgerAdmin, moment_of
from ledgence.admin.bounds import AnyOf, among
from ledgence.admin.display import NOTHING, badge, join, link
from ledgence.admin.filters import WordFilter
from ledgence.admin.history import find_actions
from ledgence.admin.paging import CAP
from ledgence.conf import get_settings
from ledgence.housekeeping import SILENCE_SECONDS_MAX, seconds_since_turn
from ledgence.models import ApiToken, OperatorAction, OperatorActionTarget, Queue, Task, WorkerSession
from ledgence.tokens import PUBLIC_ID
from ledgence.wording import visible

Kind, State = OperatorAction.Kind, OperatorAction.State

#: How many of its rows an action's page shows; each row's own page shows its actions.
TARGETS_SHOWN = 200

#: What kinds of actions name that are not about tasks.
MODELS: dict[str, Any] = {
    Kind.PAUSE: Queue,
    Kind.RESUME: Queue,
    Kind.ROUTE: Queue,
    Kind.DRAIN: WorkerSession,
    Kind.STOP: OperatorAction,
}
BADGES = {State.RUNNING: "active", State.DONE: "later", State.STOPPED: "warning"}


class KindFilter(WordFilter):
    title = gettext_lazy("kind")
    parameter_name = "kind"
    words = dict(Kind.choices)

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        return rows.filter(_newest(), kind=word)


class ActionStateFilter(WordFilter):
    title = gettext_lazy("state")
    parameter_name = "state"
    words = dict(State.choices)

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        # Those that run have an index of their own.
        return rows.filter(state=word) if word == State.RUNNING else rows.filter(_newest(), state=word)


def _newest() -> AnyOf:
    """Return the condition that an action is among the newest: their ids are not in the order of time."""
    return among(OperatorAction.objects.order_by("-acted_at", "-pk").values("pk"))


@admin.register(OperatorAction)
class OperatorActionAdmin(LedgerAdmin):
    confirmed = (STOP,)
    ordering = ("-acted_at", "-pk")
    list_display = ("acted", "kind_shown", "state_shown", "actor_name", "rows", "reason_shown")
    list_filter = (ActionStateFilter, KindFilter)
    search_fields = ("id",)
    search_help_text = gettext_lazy(
        "An action's id, the id of a row it named (a token's public id), or an operator's name, in full."
    )

    narrowed_note = format_lazy(
        gettext_lazy("Actions that run are all found; other states and kinds are sought in the newest {cap}."),
        cap=f"{CAP:,}",
    )

    acted = moment_of("acted_at", gettext_lazy("acted at"))
    finished = moment_of("finished_at", gettext_lazy("finished at"))

    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("kind_shown", "state_shown"),
                    ("rows", "skipped_shown"),
                    ("acted", "finished", "actor_name"),
                    "reason",
                    ("chosen", "scope_shown"),
                    "id",
                )
            },
        ),
    )

    def search(self, request: HttpRequest, rows: Any, term: str) -> Any:
        try:
            wanted = UUID(term)
        except ValueError:
            named = OperatorActionTarget.objects.filter(target=term).values("action")
            return rows.filter(pk__in=named) if PUBLIC_ID.fullmatch(term) else rows.filter(actor_name=term)
        named = OperatorActionTarget.objects.filter(target=str(wanted)).values("action")
        return rows.filter(Q(pk=wanted) | Q(pk__in=named))

    def get_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        rows = OperatorActionTarget.objects.using(get_settings().database).filter(action=obj.pk).order_by("pk")
        shown = list(rows[:TARGETS_SHOWN])
        links = _links(obj.kind, [row.target for row in shown])
        targets = [(links[row.target], row.expected_revision, _answer(obj, row.answer)) for row in shown]
        return {
            "targets": targets,
            "targets_left_out": obj.matched - len(targets),
            "is_unattended": obj.state == State.RUNNING and _is_unattended(),
            "operator_actions": find_actions(obj.pk),
        }

    @admin.display(description=gettext_lazy("action"))
    def kind_shown(self, action: Any) -> Any:
        return badge("later", action.get_kind_display())

    @admin.display(description=gettext_lazy("state"))
    def state_shown(self, action: Any) -> Any:
        state = badge(BADGES[action.state], action.get_state_display())
        if action.state == State.DONE:
            return state
        reached = action.changed + sum((action.skipped or {}).values())
        bar = format_html(
            '<progress max="{}" value="{}" aria-label="{}"></progress>', action.matched, reached, _("progress")
        )
        words = _("%(reached)d of %(matched)d rows") % {"reached": reached, "matched": action.matched}
        return join([state, bar, words])

    @admin.display(description=gettext_lazy("rows"))
    def rows(self, action: Any) -> Any:
        skipped = sum((action.skipped or {}).values())
        words = {"changed": action.changed, "skipped": skipped, "matched": action.matched}
        return _("%(changed)d changed, %(skipped)d skipped, of %(matched)d") % words

    @admin.display(description=gettext_lazy("skipped, by answer"))
    def skipped_shown(self, action: Any) -> Any:
        return _listed(action.skipped)

    @admin.display(description=gettext_lazy("chosen"))
    def chosen(self, action: Any) -> Any:
        return _listed(action.parameters)

    @admin.display(description=gettext_lazy("all rows that matched"))
    def scope_shown(self, action: Any) -> Any:
        if not action.scope:
            return NOTHING
        return _("%(list)s: %(words)s, up to %(bound)s") % {name: action.scope.get(name, "") for name in SCOPE}

    @admin.display(description=gettext_lazy("reason"))
    def reason_shown(self, action: Any) -> Any:
        return Truncator(action.reason).chars(100)


SCOPE = ("list", "words", "bound")


def _listed(values: dict[str, Any] | None) -> Any:
    return ", ".join(f"{name}: {value}" for name, value in values.items()) if values else NOTHING


def _is_unattended() -> bool:
    """Whether no housekeeping runs that would apply an action."""
    silence = seconds_since_turn(using=get_settings().database)
    return silence is None or silence > SILENCE_SECONDS_MAX


def _links(kind: str, targets: list[str]) -> dict[str, Any]:
    """Render the rows that an action of a kind named, each as a link to its page; a token by its name and public id."""
    if kind in (Kind.ISSUE_TOKEN, Kind.REVOKE_TOKEN):
        tokens = ApiToken.objects.using(get_settings().database).filter(public_id__in=targets)
        found = {token.public_id: link(ApiToken, token.pk, visible(str(token))) for token in tokens}
        return {target: found.get(target, target) for target in targets}
    model = MODELS.get(kind, Task)
    names = {}
    if model in (Queue, WorkerSession):
        rows = model._default_manager.using(get_settings().database).filter(pk__in=targets)
        names = {str(row.pk): visible(str(row)) for row in rows}
    return {target: link(model, target, names.get(target, target)) for target in targets}


def _answer(action: Any, answer: str) -> Any:
    """Render an answer; that to a copy is the new task."""
    if not answer:
        return _("waits for its chunk") if action.state == State.RUNNING else _("not reached")
    is_copy = action.kind == Kind.COPY and answer not in ("not_found", "refused")
    return link(Task, answer, answer) if is_copy else answer
