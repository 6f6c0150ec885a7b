"""Who publishes the work of external queues, and when it was last seen."""

from datetime import timedelta
from typing import Self

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ledgence.models.queue import Queue

#: A publisher that has not turned for so long is not counted on.
SILENT_AFTER = timedelta(seconds=60)


class PublisherQuerySet(models.QuerySet["Publisher"]):
    """Adds the one rule of when a publisher is alive."""

    def live(self) -> Self:
        """Publishers that have turned lately and have not ended."""
        return self.filter(turned_at__gt=Now() - SILENT_AFTER)


class Publisher(models.Model):
    """One process's publishing of one queue: a row while it runs, and until another finds it long silent."""

    id = models.UUIDField(primary_key=True, editable=False)
    queue = models.ForeignKey(Queue, models.CASCADE, related_name="publishers", verbose_name=_("queue"))
    host = models.CharField(_("host"), max_length=255)
    pid = models.PositiveIntegerField(_("process id"))
    version = models.CharField(_("version"), max_length=128)
    started_at = models.DateTimeField(_("started at"))
    turned_at = models.DateTimeField(_("turned at"))
    # When the broker last confirmed something, or answered an inspection.
    confirmed_at = models.DateTimeField(_("broker answered at"), null=True)
    # What goes wrong since then; empty while nothing does.
    failure = models.TextField(_("failure"), blank=True, default="", db_default="")

    objects = PublisherQuerySet.as_manager()

    class Meta:
        verbose_name = _("publisher")
        verbose_name_plural = _("publishers")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.queue_id} ({self.host}:{self.pid})"
