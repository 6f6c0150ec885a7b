"""Messages that came from a queue's destination and can never be claimed."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from ledgence.models.queue import Queue
from ledgence.models.session import WorkerSession


class QuarantinedMessage(models.Model):
    """One message as it was received, recorded before it was acknowledged. Append-only."""

    class Reason(models.TextChoices):
        # No reference: not strict JSON, or not its fields.
        MALFORMED = "malformed", _("malformed")
        # Larger than any reference.
        OVERSIZED = "oversized", _("oversized")
        # A reference of a version that the worker does not know.
        UNKNOWN_VERSION = "unknown_version", _("unknown version")
        # A reference of another tenant, namespace or queue.
        FOREIGN = "foreign", _("foreign")
        # A task that does not exist, or a generation that was never issued.
        NOT_FOUND = "not_found", _("not found")

    queue = models.ForeignKey(Queue, models.CASCADE, related_name="quarantined", verbose_name=_("queue"))
    # Of the session that received it.
    session = models.ForeignKey(WorkerSession, models.CASCADE, related_name="+", verbose_name=_("worker session"))
    # The broker's.
    message_id = models.CharField(_("message"), max_length=255)
    reason = models.CharField(_("reason"), max_length=16, choices=Reason)
    detail = models.TextField(_("detail"))
    # Its beginning; what is no text in it is escaped.
    body = models.TextField(_("body"))
    received_at = models.DateTimeField(_("received at"))

    class Meta:
        verbose_name = _("quarantined message")
        verbose_name_plural = _("quarantined messages")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["queue", "message_id"], name="ledgence_quarantined_once"),
        ]
        indexes = [models.Index(fields=["-received_at", "-id"], name="ledgence_quarantined_newest")]

    def __str__(self) -> str:
        return f"{self.reason} {self.message_id}"
