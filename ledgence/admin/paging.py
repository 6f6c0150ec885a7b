"""Lists that cost the same with ten thousand rows and with a billion."""

from typing import TYPE_CHECKING, Any

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

if TYPE_CHECKING:
    # Generic for the type checker only.
    Rows = Paginator[Any]
else:
    Rows = Paginator

#: No list counts or shows more rows.
CAP = 10_000


class CappedPaginator(Rows):
    """Counts exactly up to the cap. An estimate would not do: one that is too small makes admin load every row."""

    @cached_property
    def found(self) -> int:
        """How many rows there are; CAP + 1 means more than the cap."""
        rows: Any = self.object_list
        # The order stays: with it the count walks the same index as the page.
        return int(rows[: CAP + 1].count())

    @cached_property
    def count(self) -> int:
        return min(self.found, CAP)

    def page(self, number: Any) -> Any:
        """Return one page. Its keys are found first: the pages before it are then skipped in the index, unread."""
        number = self.validate_number(number)
        rows: Any = self.object_list
        first = (number - 1) * self.per_page
        keys = list(rows.values_list("pk", flat=True)[first : min(first + self.per_page, self.count)])
        return Page(rows.filter(pk__in=keys), number, self)

    @property
    def is_capped(self) -> bool:
        return self.found > CAP


class CappedChangeList(ChangeList):
    """A change list in the one order that its index gives, which loads one page and nothing else."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        # Admin would also take any column from the address, and sort the table by it.
        return list(self.model_admin.get_ordering(request))

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        # Rows may have come since they were counted: "one page" is a limit, not a guess.
        rows: Any = self.result_list
        page: Any = self.model_admin
        self.result_list = page.describe_rows(list(rows[: self.list_per_page]))


class ScopeChangeList(CappedChangeList):
    """What a list's filters find, without a page of it: for actions on all of it."""

    def get_results(self, request: HttpRequest) -> None:
        self.result_list, self.result_count, self.full_result_count = [], 0, None
        self.show_admin_actions = self.can_show_all = self.multi_page = False
        self.paginator = self.model_admin.get_paginator(request, self.queryset, self.list_per_page)
