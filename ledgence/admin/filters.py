"""Filters of lists: each by a fixed set of words, or by a queue."""

from typing import Any

from django.contrib.admin import SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from ledgence.conf import get_settings
from ledgence.models import Queue

#: How many queues the filter offers; the others are reached from the list of queues.
QUEUES_OFFERED = 100


class WordFilter(SimpleListFilter):
    """A filter by one of its own words; another word is refused as admin refuses wrong addresses."""

    words: dict[str, Any]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(self.words.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value is None:
            return queryset
        if value not in self.words:
            raise IncorrectLookupParameters(f"{self.parameter_name}={value}")
        return self.narrow(request, queryset, value)

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        """Return the rows that the word stands for."""
        raise NotImplementedError


class QueueFilter(SimpleListFilter):
    """A filter by queue, for tables that have an index on it or are small."""

    title = _("queue")
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        queues = Queue.objects.using(get_settings().database).order_by("name", "pk")[:QUEUES_OFFERED]
        return [(str(queue.pk), queue) for queue in queues]

    def has_output(self) -> bool:
        return len(self.lookup_choices) > 1 or self.value() is not None

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value is None:
            return queryset
        if not (value.isascii() and value.isdecimal() and len(value) < 10):
            raise IncorrectLookupParameters(f"{self.parameter_name}={value}")
        return self.narrow(request, queryset, int(value))

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], queue_id: int) -> QuerySet[Any]:
        """Return the rows of the queue."""
        return rows.filter(queue=queue_id)
