"""The roll-up: what one process did for one queue in one minute, for charts that read no task."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from ledgence.models.columns import ArrayColumn
from ledgence.models.queue import Queue

#: Upper bounds, in seconds, of the counts of waits; the last count is of longer ones. Kept rows depend on them.
WAIT_BOUNDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000)


class Rollup(models.Model):
    """Counts of one minute. Each process inserts rows of its own, so that none is ever changed; they are summed."""

    id = models.BigAutoField(primary_key=True)
    minute = models.DateTimeField(_("minute"))
    queue = models.ForeignKey(Queue, models.CASCADE, db_index=False, related_name="rollups", verbose_name=_("queue"))
    claimed = models.PositiveIntegerField(_("claimed"), default=0)
    succeeded = models.PositiveIntegerField(_("succeeded"), default=0)
    failed = models.PositiveIntegerField(_("failed"), default=0)
    # Attempts that another one follows, but for those that were given back.
    retried = models.PositiveIntegerField(_("retried"), default=0)
    cancelled = models.PositiveIntegerField(_("cancelled"), default=0)
    # How many of the claimed were due for how long: one count for each of WAIT_BOUNDS, and one beyond.
    waits = ArrayColumn("integer", verbose_name=_("waits"))

    class Meta:
        verbose_name = _("roll-up")
        verbose_name_plural = _("roll-ups")
        default_permissions = ()
        indexes = [models.Index(fields=["minute"], name="ledgence_rollup_minute")]

    def __str__(self) -> str:
        return f"{self.queue_id} {self.minute}"
