"""The attempt: the record of each grant of authority, kept as long as its task."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from ledgence.models.columns import JsonColumn
from ledgence.models.session import WorkerSession
from ledgence.models.task import Task


class Attempt(models.Model):
    """One run of a task, or one generation cancelled before it ran. Inserted by claim, completed by its end."""

    class Outcome(models.TextChoices):
        """How an attempt ended; the meanings stand at ledgence_worker.protocol.Outcome."""

        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        TIMED_OUT = "timed_out", _("timed out")
        CRASHED = "crashed", _("crashed")
        LOST = "lost", _("lost")
        INTERRUPTED = "interrupted", _("interrupted")
        CANCELLED = "cancelled", _("cancelled")
        SUSPENDED = "suspended", _("suspended")

    id = models.BigAutoField(primary_key=True)
    task = models.ForeignKey(
        Task,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="attempts",
        verbose_name=_("task"),
    )
    number = models.PositiveIntegerField(_("number"))
    cause = models.CharField(_("cause"), max_length=12)
    session = models.ForeignKey(
        WorkerSession, models.PROTECT, null=True, db_index=False, related_name="attempts", verbose_name=_("session")
    )
    token = models.UUIDField(_("lease token"), null=True, editable=False)
    claimed_at = models.DateTimeField(_("claimed at"), null=True)
    authorized_at = models.DateTimeField(_("authorized at"), null=True)
    lease_expires_at = models.DateTimeField(_("last lease expiry"), null=True)
    finished_at = models.DateTimeField(_("finished at"), null=True)
    outcome = models.CharField(_("outcome"), max_length=11, choices=Outcome, null=True)  # noqa: DJ001 - NULL: running
    # What followed the end: "retry" or the task's outcome. A repeated settlement is answered from here.
    consequence = models.CharField(_("consequence"), max_length=9, null=True)  # noqa: DJ001 - NULL: running
    settlement = models.BinaryField(null=True, editable=False)
    report = JsonColumn(_("report"), null=True)
    # The result of a success that came after a cancel request; a task's own result stands on the task.
    result = JsonColumn(_("result"), null=True)
    late_settlement = models.BinaryField(null=True, editable=False)
    late_outcome = models.CharField(_("late outcome"), max_length=11, choices=Outcome, null=True)  # noqa: DJ001
    late_report = JsonColumn(_("late report"), null=True)
    late_result = JsonColumn(_("late result"), null=True)
    late_at = models.DateTimeField(_("late report at"), null=True)
    # Taken over from the delivery intent.
    delivery_mode = models.CharField(_("delivery mode"), max_length=10)
    destination = models.CharField(_("destination"), max_length=255, null=True)  # noqa: DJ001 - NULL: integrated
    available_at = models.DateTimeField(_("available at"))
    publication_id = models.UUIDField(_("publication"), null=True)
    publications = models.PositiveIntegerField(_("publications"), default=0, db_default=0)
    first_published_at = models.DateTimeField(_("first published at"), null=True)
    last_published_at = models.DateTimeField(_("last published at"), null=True)

    class Meta:
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["task", "number"], name="ledgence_attempt_number"),
            models.CheckConstraint(
                condition=models.Q(outcome__isnull=True, finished_at__isnull=True)
                | models.Q(outcome__isnull=False, finished_at__isnull=False),
                name="ledgence_attempt_outcome",
            ),
            # Only a generation cancelled while queued was never leased.
            models.CheckConstraint(
                condition=models.Q(token__isnull=False, session__isnull=False, claimed_at__isnull=False)
                | models.Q(
                    outcome__isnull=False,
                    outcome="cancelled",
                    token__isnull=True,
                    session__isnull=True,
                    claimed_at__isnull=True,
                ),
                name="ledgence_attempt_owner",
            ),
            # An end is either accepted or late evidence.
            models.CheckConstraint(
                condition=models.Q(settlement__isnull=True) | models.Q(late_settlement__isnull=True),
                name="ledgence_attempt_evidence",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task_id}.{self.number}"
