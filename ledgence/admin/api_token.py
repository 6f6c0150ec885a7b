"""API tokens: who may call the task service over HTTP. Issued and revoked here, never changed, and shown once."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ledgence.admin.actions import REVOKE
from ledgence.admin.base import LedgerAdmin, moment_of
from ledgence.admin.display import badge
from ledgence.admin.filters import WordFilter
from ledgence.admin.history import find_actions
from ledgence.admin.issuing import issue_view
from ledgence.models import ApiToken, Role

KINDS = {ApiToken.State.ACTIVE: "active", ApiToken.State.EXPIRED: "later", ApiToken.State.REVOKED: "cancelled"}


class TokenStateFilter(WordFilter):
    title = gettext_lazy("state")
    parameter_name = "state"
    words = dict(ApiToken.State.choices)

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        return rows.filter(state=word)


class RoleFilter(WordFilter):
    title = gettext_lazy("role")
    parameter_name = "role"
    words = {role.value: role.value for role in Role}

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        return rows.filter(roles__holds=[word])


@admin.register(ApiToken)
class ApiTokenAdmin(LedgerAdmin):
    confirmed = (REVOKE,)
    deferred = ("digest",)
    ordering = ("-pk",)
    list_display = ("name", "state", "role_names", "scope", "queue_names", "expires", "last_used", "id_shown")
    list_filter = (TokenStateFilter, RoleFilter)
    search_fields = ("name",)
    search_help_text = gettext_lazy("A token's name or public id in full.")

    created = moment_of("created_at", gettext_lazy("created at"))
    expires = moment_of("expires_at", gettext_lazy("expires at"))
    revoked = moment_of("revoked_at", gettext_lazy("revoked at"))
    last_used = moment_of("last_used_at", gettext_lazy("last used at"))

    fieldsets = (
        (None, {"fields": ("state", ("name", "id_shown"), "role_names")}),
        (gettext_lazy("Limited to"), {"fields": (("tenant", "namespace"), "queue_names")}),
        (gettext_lazy("Times"), {"fields": (("created", "expires", "revoked", "last_used"),)}),
    )

    def has_add_permission(self, request: HttpRequest, *_: Any) -> bool:
        return request.user.has_perm("ledgence.add_apitoken")

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return issue_view(self, request)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        # Admin takes a form with this word for one that adds a row, whether the page offers that or not.
        if "_saveasnew" in request.POST:
            raise PermissionDenied
        return super().change_view(request, object_id, form_url, extra_context)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: Any = super().get_queryset(request)
        with_state: QuerySet[Any] = rows.with_state()
        return with_state

    def search(self, request: HttpRequest, rows: Any, term: str) -> Any:
        return rows.filter(Q(public_id=term) | Q(name=term))

    def get_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        return {"operator_actions": find_actions(obj.public_id)}

    @admin.display(description=gettext_lazy("state"))
    def state(self, token: Any) -> Any:
        state = ApiToken.State(token.state)
        return badge(KINDS[state], state.label)

    @admin.display(description=gettext_lazy("public id"))
    def id_shown(self, token: Any) -> Any:
        return token.public_id

    @admin.display(description=gettext_lazy("roles"))
    def role_names(self, token: Any) -> Any:
        return ", ".join(token.roles)

    @admin.display(description=gettext_lazy("tenant / namespace"))
    def scope(self, token: Any) -> Any:
        return f"{token.tenant} / {token.namespace}"

    @admin.display(description=gettext_lazy("queues"))
    def queue_names(self, token: Any) -> Any:
        return ", ".join(token.queues) or _("all")
