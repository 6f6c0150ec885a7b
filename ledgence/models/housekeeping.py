"""When housekeeping has last turned: what the task service judges it by."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class HousekeepingTurn(models.Model):
    """The one row in which whichever process keeps house says now and then that it does."""

    id = models.SmallIntegerField(primary_key=True)
    turned_at = models.DateTimeField(_("turned at"))

    class Meta:
        verbose_name = _("turn of housekeeping")
        verbose_name_plural = _("turns of housekeeping")
        default_permissions = ("view",)
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="ledgence_housekeeping_one")]

    def __str__(self) -> str:
        return str(self.turned_at)
