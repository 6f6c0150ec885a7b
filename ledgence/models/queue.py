"""What tasks refer to: queues, programs, and the policies that say how long and how often a task may run."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from ledgence.models.columns import ArrayColumn


class Queue(models.Model):
    """A named line of work within a tenant and namespace. Made on first use; never renamed."""

    class Mode(models.TextChoices):
        """How workers get a queue's work."""

        # Workers ask the task service for assignments.
        INTEGRATED = "integrated", _("integrated")
        # Workers receive references from a broker and claim that exact work.
        EXTERNAL = "external", _("external")

    id = models.AutoField(primary_key=True)
    tenant = models.CharField(_("tenant"), max_length=128)
    namespace = models.CharField(_("namespace"), max_length=128)
    name = models.CharField(_("name"), max_length=128)
    mode = models.CharField(_("mode"), max_length=10, choices=Mode, default=Mode.INTEGRATED)
    # The address of the physical queue, as its broker names it.
    destination = models.CharField(_("destination"), max_length=255, null=True, blank=True)  # noqa: DJ001 - NULL: no route
    paused_at = models.DateTimeField(_("paused at"), null=True, blank=True)
    paused_by = models.CharField(_("paused by"), max_length=255, blank=True, default="")
    pause_reason = models.TextField(_("pause reason"), blank=True, default="")
    # When housekeeping resumes it. NULL: an operator has to.
    paused_until = models.DateTimeField(_("paused until"), null=True, blank=True)
    # How often it was paused and resumed: what an operator saw is compared with it.
    revision = models.PositiveIntegerField(_("revision"), default=0, db_default=0)

    class Meta:
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        default_permissions = ("view",)
        permissions = [("pause_queue", "Can pause and resume queues")]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "namespace", "name"], name="ledgence_queue_name"),
            models.UniqueConstraint(
                fields=["destination"], condition=models.Q(destination__isnull=False), name="ledgence_queue_destination"
            ),
            models.CheckConstraint(condition=models.Q(mode__in=["integrated", "external"]), name="ledgence_queue_mode"),
            models.CheckConstraint(
                condition=models.Q(mode="external", destination__isnull=False)
                | models.Q(mode="integrated", destination__isnull=True),
                name="ledgence_queue_route",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Program(models.Model):
    """A tenant's version of a program. Immutable: the first process that knows its entry point fills it in.

    What one tenant calls a program is no other's affair: it can neither take a name away nor learn an entry point.
    """

    id = models.AutoField(primary_key=True)
    tenant = models.CharField(_("tenant"), max_length=128)
    namespace = models.CharField(_("namespace"), max_length=128)
    name = models.CharField(_("name"), max_length=128)
    version = models.CharField(_("version"), max_length=128)
    entry_point = models.CharField(_("entry point"), max_length=512, null=True)  # noqa: DJ001 - NULL: not known yet

    class Meta:
        verbose_name = _("program")
        verbose_name_plural = _("programs")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["tenant", "namespace", "name", "version"], name="ledgence_program_version")
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Policy(models.Model):
    """How long an attempt may take, how many there may be, and what is tried again. Immutable; shared by its digest."""

    id = models.AutoField(primary_key=True)
    digest = models.BinaryField(unique=True)
    max_attempts = models.PositiveSmallIntegerField(_("max attempts"))
    timeout_seconds = models.FloatField(_("time-out"), null=True)
    backoff_initial_seconds = models.FloatField(_("first backoff"))
    backoff_factor = models.FloatField(_("backoff factor"))
    backoff_maximum_seconds = models.FloatField(_("longest backoff"))
    backoff_jitter = models.FloatField(_("jitter"))
    retry_on = ArrayColumn("text", verbose_name=_("retried outcomes and exceptions"))

    class Meta:
        verbose_name = _("policy")
        verbose_name_plural = _("policies")
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(condition=models.Q(max_attempts__gte=1), name="ledgence_policy_attempts"),
            models.CheckConstraint(
                condition=models.Q(timeout_seconds__isnull=True) | models.Q(timeout_seconds__gt=0),
                name="ledgence_policy_timeout",
            ),
            models.CheckConstraint(
                condition=models.Q(backoff_factor__range=(1, 10))
                & models.Q(backoff_initial_seconds__gte=0)
                & models.Q(backoff_maximum_seconds__range=(0, 31_536_000))
                & models.Q(backoff_jitter__range=(0, 1)),
                name="ledgence_policy_backoff",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.max_attempts} attempts of {self.timeout_seconds or '∞'} s"
