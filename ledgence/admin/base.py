"""What all pages share: rows are read-only, lists are bounded, and only what an index can find narrows them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.options import ShowFacets
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse

from ledgence.admin.confirmation import ConfirmedAction
from ledgence.admin.display import moment
from ledgence.admin.paging import CAP, CappedChangeList, CappedPaginator, ScopeChangeList
from ledgence.admin.scope import scope_of
from ledgence.conf import get_settings

if TYPE_CHECKING:
    # Generic for the type checker only.
    Page = admin.ModelAdmin[Any]
else:
    Page = admin.ModelAdmin


def moment_of(field: str, label: Any) -> Any:
    """Make a column that shows a time of the row to the second."""

    @admin.display(description=label)
    def column(self: Any, row: Any) -> Any:
        return moment(getattr(row, field))

    return column


class LedgerAdmin(Page):
    """Base of all pages. A subclass names its order (total, and that of an index), columns, filters and actions."""

    #: Wide columns that neither lists nor pages load with the row; pages read them cut.
    deferred: ClassVar[tuple[str, ...]] = ()
    #: What may be done here, each with its own permission and confirmation.
    confirmed: ClassVar[tuple[ConfirmedAction, ...]] = ()
    #: Said below a list that a filter or a search narrows: what was looked through.
    narrowed_note: Any = ""

    paginator = CappedPaginator
    list_per_page = 50
    list_max_show_all = 0
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    sortable_by = ()
    list_select_related: ClassVar[Any] = False
    view_on_site = False
    actions_on_top = True

    class Media:
        css = {"all": ["ledgence/admin.css"]}

    def __init__(self, model: type[Model], admin_site: admin.AdminSite) -> None:
        self.actions = [action.for_lists() for action in self.confirmed]
        super().__init__(model, admin_site)

    def has_add_permission(self, request: HttpRequest, *_: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    # Admin asks for these by the names in an action's ``permissions``.
    def has_requeue_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledgence.requeue_task")

    def has_run_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledgence.run_task")

    def has_move_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledgence.move_task")

    def has_prioritize_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledgence.prioritize_task")

    def has_drain_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledgence.drain_workersession")

    def has_bulk_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledgence.bulk_operatoraction")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledgence.cancel_task")

    def has_republish_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledgence.republish_deliveryintent")

    def has_expire_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledgence.expire_lease")

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledgence.pause_queue")

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledgence.revoke_apitoken")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).using(get_settings().database).defer(*self.deferred)

    def get_changelist(self, request: HttpRequest, **_: Any) -> type[ChangeList]:
        return ScopeChangeList if getattr(request, "is_for_scope", False) else CappedChangeList

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        try:
            return self.search(request, queryset, term), False
        except ValueError:
            return queryset.none(), False

    def search(self, request: HttpRequest, rows: Any, term: str) -> Any:
        """Return the rows that a term finds, by a predicate that has its index. A ValueError stands for none."""
        return rows.filter(pk=UUID(term))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        # Admin allows every column of the table: a scan by address, and a way to guess what a payload holds.
        return lookup in {getattr(entry, "parameter_name", None) for entry in self.list_filter}

    def describe_rows(self, rows: list[Any]) -> list[Any]:
        """Add to one page's rows what their columns show, in a fixed number of statements."""
        return rows

    def describe_row(self, row: Any) -> Any:
        """Add to the row of a page what it shows; None if it is gone."""
        return self.describe_rows([row])[0]

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        return row and self.describe_row(row)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        may_act_on_all = self.has_bulk_permission(request)
        context = {
            "cap": CAP,
            "narrowed_note": self.narrowed_note,
            "across": self.get_tools_for_all(request) if may_act_on_all else [],
            # With it comes admin's own way to choose all rows.
            "actions_selection_counter": may_act_on_all,
        }
        return super().changelist_view(request, context | (extra_context or {}))

    def get_tools_for_all(self, request: HttpRequest) -> Sequence[tuple[Any, str]]:
        """Return (label, address) of what this user may do to all rows that the list shows page by page."""
        query = urlencode({"across": "1"}) + "&" + scope_of(self, request.GET).filter
        return [
            (action.label, f"{self.reverse(action.name)}?{query}")
            for action in self.confirmed
            if action.is_allowed(self, request)
        ]

    def get_urls(self) -> list[URLPattern]:
        return [*(self._route(action) for action in self.confirmed), *super().get_urls()]

    def _route(self, action: ConfirmedAction) -> URLPattern:
        def view(request: HttpRequest) -> HttpResponse:
            return action.view(self, request)

        return path(
            f"{action.slug}/",
            self.admin_site.admin_view(view),
            name=f"{self.opts.app_label}_{self.opts.model_name}_{action.name}",
        )

    def get_tools(self, request: HttpRequest, obj: Any) -> Sequence[tuple[Any, str]]:
        """Return (label, address) of what this user may do to a row as it is now, each asking for confirmation."""
        allowed = [action for action in self.confirmed if action.is_allowed(self, request)]
        if not allowed:
            return []
        # The actions of one page have one subject.
        facts = getattr(obj, "facts", None) or allowed[0].subject.find([obj.pk]).get(str(obj.pk))
        return [
            (action.label, f"{self.reverse(action.name)}?ids={obj.pk}")
            for action in allowed
            if facts is not None and action.judge(facts) is None
        ]

    def get_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Return what the page of one row shows below its fields."""
        return {}

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:
        if obj is not None:
            context |= {"tools": self.get_tools(request, obj), **self.get_context(request, obj)}
        return super().render_change_form(request, context, add, change, form_url, obj)

    def reverse(self, page: str, *args: Any) -> str:
        """Return the address of a page of this model."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{page}"
        return reverse(name, args=args, current_app=self.admin_site.name)
