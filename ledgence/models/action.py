"""What operators did: who, what, why, when, on which revision, and what came of it."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _


class OperatorAction(models.Model):
    """One operator action, identified by its caller so that a repeat gets the same answers. Append-only."""

    class Kind(models.TextChoices):
        """The operations of ledgence.operations that operators call; each says there what it does."""

        REQUEUE = "requeue", _("requeue")
        COPY = "copy", _("requeue as copy")
        CANCEL = "cancel", _("cancel")
        REPUBLISH = "republish", _("republish")
        FORCE_EXPIRE = "force_expire", _("force expire")
        PAUSE = "pause", _("pause")
        RESUME = "resume", _("resume")
        ROUTE = "route", _("change route")
        ISSUE_TOKEN = "issue_token", _("issue token")
        REVOKE_TOKEN = "revoke_token", _("revoke token")

    id = models.UUIDField(primary_key=True, editable=False)
    kind = models.CharField(_("kind"), max_length=12, choices=Kind)
    # The account may be deleted; the name stays.
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("actor")
    )
    actor_name = models.CharField(_("actor's name"), max_length=255)
    reason = models.TextField(_("reason"))
    acted_at = models.DateTimeField(_("acted at"))

    class Meta:
        verbose_name = _("operator action")
        verbose_name_plural = _("operator actions")
        default_permissions = ("view",)
        indexes = [models.Index(fields=["-acted_at", "-id"], name="ledgence_action_newest")]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"


class OperatorActionTarget(models.Model):
    """One row that an operator action named, and its answer."""

    action = models.ForeignKey(OperatorAction, models.CASCADE, related_name="targets")
    # A task's id, a queue's, or a token's public one.
    target = models.CharField(_("target"), max_length=64)
    # Of a lease that was to expire it is the attempt's number. NULL: the operation compares none.
    expected_revision = models.PositiveIntegerField(_("expected revision"), null=True)
    # A word, or the id of the copy that was made.
    answer = models.CharField(_("answer"), max_length=64)

    class Meta:
        verbose_name = _("operator action target")
        verbose_name_plural = _("operator action targets")
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["action", "target"], name="ledgence_action_target")]
        indexes = [models.Index(fields=["target"], name="ledgence_action_by_target")]

    def __str__(self) -> str:
        return f"{self.target}: {self.answer}"
