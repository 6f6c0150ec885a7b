"""All rows that a list's filter finds: the filter as it is kept, in words, and the rows up to the newest seen."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib.admin import SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import SEARCH_VAR, ChangeList
from django.core.exceptions import BadRequest
from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext as _

from ledgence.admin.bounds import reaching
from ledgence.operations.bulk import ROWS_MAX

if TYPE_CHECKING:
    from ledgence.admin.base import LedgerAdmin

#: How many decimal digits the number of rows has at most.
DIGITS = len(str(ROWS_MAX))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A list's filter, normalised. ``bound``: rows that are newer, by their id, are not meant; None: none was seen."""

    filter: str
    bound: Any = None

    def find(self, page: "LedgerAdmin", request: HttpRequest, limit: int) -> list[Any]:
        """Return the ids of the rows that the filter finds now, in the list's order. Raises BadRequest."""
        with reaching(limit):
            rows: Any = self._change_list(page, request).queryset
            if self.bound is not None:
                rows = rows.filter(pk__lte=self.bound)
            return list(rows.values_list("pk", flat=True)[:limit])

    def tell(self, page: "LedgerAdmin", request: HttpRequest) -> str:
        """Return the filter in words."""
        change_list = self._change_list(page, request)
        words = [
            f"{spec.title}: {next((label for word, label in spec.lookup_choices if word == value), value)}"
            for spec in change_list.filter_specs
            if isinstance(spec, SimpleListFilter) and (value := spec.value()) is not None
        ]
        if change_list.query:
            words.append(_("search: %(term)s") % {"term": change_list.query})
        return ", ".join(map(str, words)) or _("no filter: the whole list")

    def _change_list(self, page: "LedgerAdmin", request: HttpRequest) -> ChangeList:
        # The list as somebody sees it who has this filter in the address, without a page of its rows.
        narrowed: Any = copy.copy(request)
        narrowed.GET = QueryDict(self.filter)
        narrowed.is_for_scope = True
        try:
            return page.get_changelist_instance(narrowed)
        except IncorrectLookupParameters:
            raise BadRequest("The filter is not one of this list.") from None


def scope_of(page: "LedgerAdmin", query: Mapping[str, Any]) -> Scope:
    """Return the filter in the address of a list; what is no filter of the list is left out."""
    names = [name for entry in page.list_filter if (name := getattr(entry, "parameter_name", None))]
    known = {name: str(query[name]) for name in sorted({*names, SEARCH_VAR}) if query.get(name)}
    return Scope(filter=urlencode(known))


def read_count(text: str) -> int:
    """Read how many rows the confirmation told. Raises BadRequest."""
    if not (text.isascii() and text.isdecimal() and len(text) <= DIGITS and 0 < int(text) <= ROWS_MAX):
        raise BadRequest("The number of rows is not valid.")
    return int(text)
