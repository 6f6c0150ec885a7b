"""The worker session: the identity of one worker process, and its channels' last commands."""

from datetime import timedelta
from typing import Self

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ledgence.conf import get_settings
from ledgence.models.columns import ArrayColumn


def silent_after() -> timedelta:
    """Return how long an open session may be unheard of: a worker extends its own twice as often."""
    return timedelta(seconds=get_settings().lease_seconds / 2)


def session_state(prefix: str = "") -> models.Case:
    """Return the expression for a session's state, from a row that refers to it by ``prefix`` ("session__")."""
    return models.Case(
        models.When(**{f"{prefix}closed_at__isnull": False}, then=models.Value(WorkerSession.State.ENDED.value)),
        models.When(**{f"{prefix}expires_at__lte": Now()}, then=models.Value(WorkerSession.State.ENDED.value)),
        models.When(
            **{f"{prefix}extended_at__lte": Now() - silent_after()}, then=models.Value(WorkerSession.State.SILENT.value)
        ),
        default=models.Value(WorkerSession.State.LIVE.value),
        output_field=models.CharField(),
    )


class WorkerSessionQuerySet(models.QuerySet["WorkerSession"]):
    """Adds the one rule of which workers are alive. Every session is live, silent or ended."""

    def open(self) -> Self:
        """Sessions that are neither closed nor over."""
        return self.filter(closed_at__isnull=True, expires_at__gt=Now())

    def live(self) -> Self:
        """Open sessions whose worker was heard of lately."""
        # One that was opened before this was written down is given the benefit of the doubt.
        heard = models.Q(extended_at__isnull=True) | models.Q(extended_at__gt=Now() - silent_after())
        return self.open().filter(heard)

    def silent(self) -> Self:
        """Open sessions whose worker should have been heard of: it died, hangs, or cannot reach the task service."""
        return self.open().filter(extended_at__lte=Now() - silent_after())

    def ended(self) -> Self:
        """Sessions that are closed or over."""
        return self.filter(models.Q(closed_at__isnull=False) | models.Q(expires_at__lte=Now()))

    def with_state(self) -> Self:
        """Annotate each session's ``state``, a word of WorkerSession.State, by the database's clock."""
        return self.annotate(state=session_state())


class WorkerSession(models.Model):
    """One boot of one worker process. Never revived: a new process opens a new session."""

    class State(models.TextChoices):
        """Whether a session's worker is alive; never stored."""

        LIVE = "live", _("live")
        # It should have been heard of.
        SILENT = "silent", _("silent")
        # Closed by its worker, or not extended until its end.
        ENDED = "ended", _("ended")

    id = models.UUIDField(primary_key=True, editable=False)
    tenant = models.CharField(_("tenant"), max_length=128)
    namespace = models.CharField(_("namespace"), max_length=128)
    name = models.CharField(_("name"), max_length=128)
    host = models.CharField(_("host"), max_length=255)
    pid = models.PositiveIntegerField(_("process id"))
    version = models.CharField(_("version"), max_length=128)
    concurrency = models.PositiveSmallIntegerField(_("concurrency"))
    # Empty: every queue of the tenant and namespace.
    queues = ArrayColumn("text", verbose_name=_("queues"))
    exclude_queues = ArrayColumn("text", verbose_name=_("excluded queues"))
    programs = ArrayColumn("integer", verbose_name=_("catalogue"))
    opened_at = models.DateTimeField(_("opened at"))
    expires_at = models.DateTimeField(_("expires at"))
    closed_at = models.DateTimeField(_("closed at"), null=True)
    # From then on it gets no more work, and its worker drains when it hears of it. NULL: nobody asked.
    drain_requested_at = models.DateTimeField(_("drain requested at"), null=True)
    # When its worker was last heard of for certain: opened or extended.
    extended_at = models.DateTimeField(_("extended at"), null=True)

    objects = WorkerSessionQuerySet.as_manager()

    class Meta:
        verbose_name = _("worker session")
        verbose_name_plural = _("worker sessions")
        default_permissions = ("view",)
        permissions = [("drain_workersession", "Can drain workers")]
        indexes = [
            # Who is there now, however many have been. Extensions move rows in it, a few a minute for each worker.
            models.Index(
                fields=["expires_at"], condition=models.Q(closed_at__isnull=True), name="ledgence_session_open"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.host}:{self.pid})"


class Channel(models.Model):
    """One line of commands of a session: the last sequence, and the assignments that it answered."""

    session = models.ForeignKey(WorkerSession, models.CASCADE, related_name="channels", db_index=False)
    number = models.PositiveSmallIntegerField()
    sequence = models.PositiveBigIntegerField()
    tasks = ArrayColumn("uuid")
    attempts = ArrayColumn("integer")
    answered_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["session", "number"], name="ledgence_channel_number")]

    def __str__(self) -> str:
        return f"{self.session_id}/{self.number}"
