"""What operators did: who, what, why, when, on which revision, and what came of it."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from ledgence.models.columns import JsonColumn


class OperatorAction(models.Model):
    """One operator action, identified by its caller so that a repeat gets the same answers. Never changed once done."""

    class Kind(models.TextChoices):
        """The operations of ledgence.operations that operators call; each says there what it does."""

        REQUEUE = "requeue", _("requeue")
        COPY = "copy", _("requeue as copy")
        CANCEL = "cancel", _("cancel")
        REPUBLISH = "republish", _("republish")
        FORCE_EXPIRE = "force_expire", _("force expire")
        RUN_NOW = "run_now", _("run now")
        MOVE = "move", _("move to queue")
        SET_PRIORITY = "set_priority", _("set priority")
        PAUSE = "pause", _("pause")
        RESUME = "resume", _("resume")
        DRAIN = "drain", _("drain")
        STOP = "stop", _("stop action")
        ROUTE = "route", _("change route")
        ISSUE_TOKEN = "issue_token", _("issue token")
        REVOKE_TOKEN = "revoke_token", _("revoke token")

    class State(models.TextChoices):
        """How far the action is."""

        # Its rows wait for housekeeping, which applies it chunk by chunk.
        RUNNING = "running", _("running")
        # Every row has its answer.
        DONE = "done", _("done")
        # An operator stopped it: the rows that have no answer are as they were.
        STOPPED = "stopped", _("stopped")

    id = models.UUIDField(primary_key=True, editable=False)
    kind = models.CharField(_("kind"), max_length=12, choices=Kind)
    # The account may be deleted; the name stays.
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("actor")
    )
    actor_name = models.CharField(_("actor's name"), max_length=255)
    reason = models.TextField(_("reason"))
    # What was chosen beside the rows, as a queue or a priority. NULL: nothing.
    parameters = JsonColumn(_("parameters"), null=True)
    # Of an action on all rows that a list's filter found: the list, the filter, and up to which row.
    scope = JsonColumn(_("scope"), null=True)
    acted_at = models.DateTimeField(_("acted at"))
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.DONE, db_default=State.DONE)
    # When one that ran in chunks was done or stopped.
    finished_at = models.DateTimeField(_("finished at"), null=True)
    # How many rows it names, how many of them it changed, and how many were skipped, by their answer. NULL: none.
    matched = models.PositiveIntegerField(_("matched"), default=0, db_default=0)
    changed = models.PositiveIntegerField(_("changed"), default=0, db_default=0)
    skipped = JsonColumn(_("skipped"), null=True)

    class Meta:
        verbose_name = _("operator action")
        verbose_name_plural = _("operator actions")
        default_permissions = ("view",)
        permissions = [("bulk_operatoraction", "Can act on all rows that match a filter")]
        indexes = [
            models.Index(fields=["-acted_at", "-id"], name="ledgence_action_newest"),
            # Whether there is anything to apply is asked all the time.
            models.Index(
                fields=["acted_at", "id"], condition=models.Q(state="running"), name="ledgence_action_running"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"


class OperatorActionTarget(models.Model):
    """One row that an operator action named, and its answer."""

    action = models.ForeignKey(OperatorAction, models.CASCADE, related_name="targets")
    # A task's id, a queue's, or a token's public one.
    target = models.CharField(_("target"), max_length=64)
    # Of a lease that was to expire it is the attempt's number, of queued work the generation. NULL: none was seen, or
    # the operation compares none.
    expected_revision = models.PositiveIntegerField(_("expected revision"), null=True)
    # A word, or the id of the copy that was made. Empty while the row of a running action waits for its chunk.
    answer = models.CharField(_("answer"), max_length=64)

    class Meta:
        verbose_name = _("operator action target")
        verbose_name_plural = _("operator action targets")
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["action", "target"], name="ledgence_action_target")]
        indexes = [
            models.Index(fields=["target"], name="ledgence_action_by_target"),
            models.Index(fields=["action", "id"], condition=models.Q(answer=""), name="ledgence_action_pending"),
        ]

    def __str__(self) -> str:
        return f"{self.target}: {self.answer}"
