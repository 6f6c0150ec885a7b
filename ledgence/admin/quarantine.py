"""Quarantined messages: what came from a queue's destination and could never be claimed."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.text import Truncator, format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ledgence.admin.base import LedgerAdmin, moment_of
from ledgence.admin.bounds import newest
from ledgence.admin.display import badge, link, text_block
from ledgence.admin.filters import QueueFilter, WordFilter
from ledgence.admin.history import worker_link
from ledgence.admin.paging import CAP
from ledgence.admin.redaction import redact
from ledgence.conf import get_settings
from ledgence.models import QuarantinedMessage, Queue
from ledgence.wording import visible

Reason = QuarantinedMessage.Reason


_NO_REFERENCE = gettext_lazy(
    "Something that is no publisher of Ledgence writes into the queue's destination: find it, or give the queue a "
    "destination of its own. No task depended on the message."
)
ADVICE = {
    Reason.MALFORMED: _NO_REFERENCE,
    Reason.OVERSIZED: _NO_REFERENCE,
    Reason.UNKNOWN_VERSION: gettext_lazy(
        "A publisher of a newer release sends here: give the workers that release. The task is announced again."
    ),
    Reason.FOREIGN: gettext_lazy(
        "A publisher of another tenant, namespace, queue or installation uses the same destination: look into the "
        "--delivery-config of each, and give each queue its own. The task belongs to its own installation, which "
        "announces it again."
    ),
    Reason.NOT_FOUND: gettext_lazy(
        "The task was deleted, or the message is from another database, say a restored copy. Nothing is left to run."
    ),
}


class ReasonFilter(WordFilter):
    title = gettext_lazy("reason")
    parameter_name = "reason"
    words = dict(Reason.choices)

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        return rows.filter(newest(QuarantinedMessage), reason=word)


class QuarantineQueueFilter(QueueFilter):
    def narrow(self, request: HttpRequest, rows: QuerySet[Any], queue_id: int) -> QuerySet[Any]:
        return rows.filter(newest(QuarantinedMessage), queue=queue_id)


@admin.register(QuarantinedMessage)
class QuarantinedMessageAdmin(LedgerAdmin):
    """Nothing can be done to one: it is removed from the broker, and no work depended on it."""

    ordering = ("-received_at", "-pk")
    deferred = ("body",)
    list_select_related = ("queue", "session")
    list_display = ("received", "reason_shown", "queue", "message", "detail_shown", "worker")
    list_filter = (ReasonFilter, QuarantineQueueFilter)
    search_fields = ("message_id",)
    search_help_text = gettext_lazy("A message's id in full, as the broker names it.")
    narrowed_note = format_lazy(
        gettext_lazy("Reasons and queues are sought in the newest {cap} messages."), cap=f"{CAP:,}"
    )

    received = moment_of("received_at", gettext_lazy("received at"))

    fieldsets = (
        (
            None,
            {"fields": (("reason_shown", "queue_link", "received"), ("message_id", "worker"), "detail_text", "advice")},
        ),
        (gettext_lazy("Body, its beginning"), {"fields": ("body_text",)}),
    )

    def search(self, request: HttpRequest, rows: Any, term: str) -> Any:
        # The index begins with the queue.
        queues = Queue.objects.using(get_settings().database).values_list("pk", flat=True)
        return rows.filter(queue__in=list(queues), message_id=term)

    @admin.display(description=gettext_lazy("reason"))
    def reason_shown(self, message: Any) -> Any:
        return badge("warning", message.get_reason_display())

    @admin.display(description=gettext_lazy("queue"))
    def queue_link(self, message: Any) -> Any:
        return link(Queue, message.queue_id, message.queue)

    @admin.display(description=gettext_lazy("message"))
    def message(self, message: Any) -> Any:
        return visible(Truncator(message.message_id).chars(40))

    @admin.display(description=gettext_lazy("detail"))
    def detail_shown(self, message: Any) -> Any:
        return visible(Truncator(message.detail).chars(80))

    @admin.display(description=gettext_lazy("received by"))
    def worker(self, message: Any) -> Any:
        return worker_link(message.session)

    @admin.display(description=gettext_lazy("detail"))
    def detail_text(self, message: Any) -> Any:
        return text_block(message.detail)

    @admin.display(description=gettext_lazy("what to do"))
    def advice(self, message: Any) -> Any:
        return ADVICE[message.reason]

    @admin.display(description=gettext_lazy("body"))
    def body_text(self, message: Any) -> Any:
        return text_block(redact(message.body)) if message.body else _("empty")
