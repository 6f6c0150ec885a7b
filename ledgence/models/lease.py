"""The lease: permission to run. A task is active exactly while its lease exists."""

from typing import Self

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ledgence.models.queue import Program, Queue
from ledgence.models.session import WorkerSession
from ledgence.models.task import Task


class LeaseQuerySet(models.QuerySet["Lease"]):
    """Adds the one rule of when a lease is over."""

    def expired(self) -> Self:
        """Leases whose time is over by the database's clock; equality is expired."""
        return self.filter(expires_at__lte=Now())


class Lease(models.Model):
    """The authority of one attempt: made by claim, kept by renewal, deleted by settlement, release or expiry."""

    task = models.OneToOneField(
        Task, models.DO_NOTHING, primary_key=True, db_constraint=False, related_name="lease", verbose_name=_("task")
    )
    number = models.PositiveIntegerField(_("attempt"))
    token = models.UUIDField(_("lease token"), editable=False)
    # The attempt holds the constraint on the session, the task those on queue and program.
    session = models.ForeignKey(
        WorkerSession,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="leases",
        verbose_name=_("session"),
    )
    queue = models.ForeignKey(Queue, models.DO_NOTHING, db_constraint=False, db_index=False, verbose_name=_("queue"))
    program = models.ForeignKey(
        Program, models.DO_NOTHING, db_constraint=False, db_index=False, verbose_name=_("program")
    )
    priority = models.SmallIntegerField(_("priority"))
    charged = models.PositiveSmallIntegerField(_("charged attempts before"))
    expires_at = models.DateTimeField(_("expires at"))
    # No renewal reaches beyond it: execution deadline plus clean-up allowance. NULL: no time-out.
    bound_at = models.DateTimeField(_("bound"), null=True)
    cancel_requested_at = models.DateTimeField(_("cancel requested at"), null=True)

    objects = LeaseQuerySet.as_manager()

    class Meta:
        verbose_name = _("lease")
        verbose_name_plural = _("leases")
        default_permissions = ("view",)
        permissions = [("expire_lease", "Can force leases to expire")]
        indexes = [models.Index(fields=["expires_at"], name="ledgence_lease_expiry")]

    def __str__(self) -> str:
        return f"{self.task_id}.{self.number}"
