"""The task: what was submitted, and how it ended. What happens in between stands in the rows of other tables."""

from typing import Self

from django.db import models
from django.utils.translation import gettext_lazy as _

from ledgence.models.columns import JsonColumn
from ledgence.models.queue import Policy, Program, Queue
from ledgence_worker.limits import PRIORITY_MAX, PRIORITY_MIN


class State(models.TextChoices):
    """The state of a task: which of its rows exists (docs/state-machine.md)."""

    # A delivery intent exists: the next generation is ready, or will be at its time.
    QUEUED = "queued", _("queued")
    # A lease exists: an attempt holds authority.
    ACTIVE = "active", _("active")
    # The outcome is set: the task is terminal.
    SUCCEEDED = "succeeded", _("succeeded")
    FAILED = "failed", _("failed")
    CANCELLED = "cancelled", _("cancelled")


class TaskQuerySet(models.QuerySet["Task"]):
    """Adds the state, which no column holds."""

    def with_state(self) -> Self:
        """Annotate each task with ``state``, derived from the rows that exist. Two index probes a task."""
        from ledgence.models.delivery import DeliveryIntent
        from ledgence.models.lease import Lease

        own = models.OuterRef("pk")
        return self.annotate(
            state=models.Case(
                models.When(outcome__isnull=False, then=models.F("outcome")),
                models.When(models.Exists(Lease.objects.filter(pk=own)), then=models.Value(State.ACTIVE)),
                models.When(models.Exists(DeliveryIntent.objects.filter(pk=own)), then=models.Value(State.QUEUED)),
                output_field=models.CharField(),
            )
        )


class Task(models.Model):
    """One piece of work. Submission writes it once; its end and requeue change it, operators queue and priority."""

    id = models.UUIDField(primary_key=True, editable=False)
    tenant = models.CharField(_("tenant"), max_length=128)
    namespace = models.CharField(_("namespace"), max_length=128)
    queue = models.ForeignKey(Queue, models.PROTECT, db_index=False, verbose_name=_("queue"))
    program = models.ForeignKey(Program, models.PROTECT, db_index=False, verbose_name=_("program"))
    policy = models.ForeignKey(Policy, models.PROTECT, db_index=False, verbose_name=_("policy"))
    priority = models.SmallIntegerField(_("priority"))
    submitted_at = models.DateTimeField(_("submitted at"))
    idempotency_key = models.CharField(_("idempotency key"), max_length=255, null=True)  # noqa: DJ001 - NULL: no key
    digest = models.BinaryField(null=True, editable=False)
    correlation_key = models.CharField(_("correlation key"), max_length=255, null=True)  # noqa: DJ001 - NULL: no key
    traceparent = models.CharField(max_length=55, null=True)  # noqa: DJ001 - NULL: no trace
    copy_of = models.UUIDField(_("copy of"), null=True)
    data = JsonColumn(_("data"))
    cancel_requested_at = models.DateTimeField(_("cancel requested at"), null=True)
    outcome = models.CharField(_("outcome"), max_length=10, null=True)  # noqa: DJ001 - NULL: not terminal
    finished_at = models.DateTimeField(_("finished at"), null=True)
    result = JsonColumn(_("result"), null=True)
    revision = models.PositiveIntegerField(_("revision"), default=0)

    objects = TaskQuerySet.as_manager()

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        default_permissions = ("view",)
        permissions = [
            ("requeue_task", "Can requeue tasks"),
            ("cancel_task", "Can cancel tasks"),
            ("run_task", "Can run queued tasks now"),
            ("move_task", "Can move queued tasks to another queue"),
            ("prioritize_task", "Can set the priority of queued tasks"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "namespace", "idempotency_key"],
                condition=models.Q(idempotency_key__isnull=False),
                name="ledgence_task_key",
            ),
            models.CheckConstraint(
                condition=models.Q(priority__range=(PRIORITY_MIN, PRIORITY_MAX)), name="ledgence_task_priority"
            ),
            models.CheckConstraint(
                condition=models.Q(outcome__isnull=True, finished_at__isnull=True)
                # Without "is not null" it would be neither true nor false for a task without outcome, which passes.
                | models.Q(
                    outcome__isnull=False,
                    outcome__in=["succeeded", "failed", "cancelled"],
                    finished_at__isnull=False,
                ),
                name="ledgence_task_outcome",
            ),
            models.CheckConstraint(
                condition=models.Q(result__isnull=True) | models.Q(outcome__isnull=False, outcome="succeeded"),
                name="ledgence_task_result",
            ),
            models.CheckConstraint(
                condition=models.Q(idempotency_key__isnull=True) | models.Q(digest__isnull=False),
                name="ledgence_task_digest",
            ),
        ]
        indexes = [
            # The pages of a queue, and so of a tenant and namespace, newest first.
            models.Index(fields=["queue", "id"], name="ledgence_task_queue"),
            models.Index(
                fields=["outcome", "-finished_at", "-id"],
                condition=models.Q(outcome__in=["failed", "cancelled"]),
                name="ledgence_task_ended",
            ),
            models.Index(
                # Of one key, and page by page within a queue.
                fields=["correlation_key", "queue", "id"],
                condition=models.Q(correlation_key__isnull=False),
                name="ledgence_task_correlated",
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)
