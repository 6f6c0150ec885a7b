"""Ready work and its delivery: the intent that a generation be handed out, and what went wrong on the way."""

from datetime import timedelta
from typing import Self

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ledgence.models.columns import JsonColumn
from ledgence.models.queue import Program, Queue
from ledgence.models.task import Task
from ledgence_worker.limits import PRIORITY_MAX, PRIORITY_MIN

#: Due work that waits longer for a taker, or for its announcement, is stuck.
STUCK_AFTER = timedelta(seconds=60)
#: So many announcements of the same work in vain are a fault, not a delay.
STUCK_PUBLICATIONS = 5


EXTERNAL = models.Q(queue__mode=Queue.Mode.EXTERNAL)
#: The broker does not take its announcement, or what becomes of it is never known.
FAILING = EXTERNAL & (
    models.Q(refusals__gte=1) | models.Q(confirmed_at__isnull=True, publications__gte=STUCK_PUBLICATIONS)
)
#: It was announced, and once more when nobody had claimed it in its repair time.
UNCLAIMED = EXTERNAL & models.Q(confirmed_at__isnull=False, publications__gte=2)


class DeliveryIntentQuerySet(models.QuerySet["DeliveryIntent"]):
    """Adds what operators ask of intents: which are stuck, by cause. Each cause has an index that finds its rows."""

    def waiting(self) -> Self:
        """Intents that are due for long, of queues that are not paused: whatever of them is stuck has its cause."""
        return self.filter(
            queue__paused_at__isnull=True,
            # Names every priority, so that each is a probe of ledgence_intent_due and future work is not read.
            priority__in=range(PRIORITY_MIN, PRIORITY_MAX + 1),
            available_at__lte=Now() - STUCK_AFTER,
        )

    def untaken(self) -> Self:
        """Those that nobody takes: no worker serves them, or all are overwhelmed."""
        return self.waiting().filter(~EXTERNAL)

    def unannounced(self) -> Self:
        """Those of external queues whose announcement is late: no publisher serves them, or it is overwhelmed."""
        return self._announced_late().filter(EXTERNAL, next_publish_at__lte=Now() - STUCK_AFTER)

    def failing(self) -> Self:
        """Those that the broker refuses, or whose announcements are made in vain."""
        return self._announced_late().filter(FAILING)

    def unclaimed(self) -> Self:
        """Those that the broker has, and that nobody claims."""
        return self._announced_late().filter(UNCLAIMED)

    def _announced_late(self) -> Self:
        """The waiting ones, found by what their announcement is like."""
        return self.filter(queue__paused_at__isnull=True, available_at__lte=Now() - STUCK_AFTER)


class DeliveryIntent(models.Model):
    """The next generation of a queued task: exists exactly while the task is queued."""

    # No database constraint: it would lock the wide row on every submission. Tasks go only by retention.
    task = models.OneToOneField(
        Task, models.DO_NOTHING, primary_key=True, db_constraint=False, related_name="intent", verbose_name=_("task")
    )
    generation = models.PositiveIntegerField(_("generation"))
    cause = models.CharField(_("cause"), max_length=12)
    charged = models.PositiveSmallIntegerField(_("charged attempts"))
    # Copied from the task, whose constraints hold them.
    queue = models.ForeignKey(Queue, models.DO_NOTHING, db_constraint=False, db_index=False, verbose_name=_("queue"))
    program = models.ForeignKey(
        Program, models.DO_NOTHING, db_constraint=False, db_index=False, verbose_name=_("program")
    )
    priority = models.SmallIntegerField(_("priority"))
    available_at = models.DateTimeField(_("available at"))
    epoch = models.PositiveIntegerField(_("epoch"), default=1, db_default=1)
    publication_id = models.UUIDField(_("publication"), null=True)
    publications = models.PositiveIntegerField(_("publications"), default=0, db_default=0)
    first_published_at = models.DateTimeField(_("first published at"), null=True)
    last_published_at = models.DateTimeField(_("last published at"), null=True)
    # When it is to be sent next; while a publisher holds it, when that publisher's lease on it ends.
    next_publish_at = models.DateTimeField(_("next publication at"), null=True)
    # Whose word on the present publication counts: the publisher that sends it. NULL: nobody sends it now.
    publish_token = models.UUIDField(_("publication lease"), null=True, editable=False)
    # When the broker confirmed the present publication. NULL: not sent, or what became of it is not known.
    confirmed_at = models.DateTimeField(_("confirmed at"), null=True)
    # How often in a row the broker refused it.
    refusals = models.PositiveSmallIntegerField(_("refusals"), default=0, db_default=0)

    objects = DeliveryIntentQuerySet.as_manager()

    class Meta:
        verbose_name = _("delivery intent")
        verbose_name_plural = _("delivery intents")
        default_permissions = ("view",)
        permissions = [("republish_deliveryintent", "Can republish delivery intents")]
        constraints = [
            models.CheckConstraint(condition=models.Q(generation__gte=1), name="ledgence_intent_generation"),
            models.CheckConstraint(
                condition=models.Q(publication_id__isnull=True, next_publish_at__isnull=True)
                | models.Q(publication_id__isnull=False, next_publish_at__isnull=False),
                name="ledgence_intent_publication",
            ),
        ]
        indexes = [
            models.Index(
                fields=["queue", "-priority", "available_at", "task"],
                # A search that passes over foreign programs need not read their rows.
                include=["program"],
                name="ledgence_intent_due",
            ),
            # Integrated work is in neither of these, and costs them nothing.
            models.Index(
                fields=["queue", "next_publish_at", "task"],
                condition=models.Q(next_publish_at__isnull=False),
                name="ledgence_intent_publish",
            ),
            # What operators look for when announcements go wrong.
            models.Index(
                fields=["task"],
                condition=models.Q(refusals__gte=1) | models.Q(publications__gte=2),
                name="ledgence_intent_trouble",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pk}.{self.generation}"


class DeliveryEvent(models.Model):
    """A failed or uncertain send, a repair, a deferral or a republish. An ordinary first publication adds none."""

    class Kind(models.TextChoices):
        # The broker does not have the entry, and will not take it as it is.
        REFUSED = "refused", _("refused")
        # The broker does not have the entry: throttled, or never reached.
        FAILED = "failed", _("failed")
        # Whether the broker has the entry is not known.
        UNCERTAIN = "uncertain", _("uncertain")
        # Nobody claimed the work within its repair time.
        REPAIR = "repair", _("repair")
        # A worker claimed it that could not run it, as while its queue is paused: it is published again.
        DEFERRED = "deferred", _("deferred")
        # An operator asked for a new publication.
        REPUBLISH = "republish", _("republish")
        # An operator moved the work to another queue: this publication is void.
        MOVED = "moved", _("moved")

    task = models.ForeignKey(Task, models.CASCADE, related_name="delivery_events", verbose_name=_("task"))
    generation = models.PositiveIntegerField(_("generation"))
    kind = models.CharField(_("kind"), max_length=10, choices=Kind)
    epoch = models.PositiveIntegerField(_("epoch"))
    publication_id = models.UUIDField(_("publication"), null=True)
    detail = JsonColumn(_("detail"), null=True)
    happened_at = models.DateTimeField(_("happened at"))

    class Meta:
        verbose_name = _("delivery event")
        verbose_name_plural = _("delivery events")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.kind} {self.task_id}.{self.generation}"
