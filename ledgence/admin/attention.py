"""What an operator should look at first: one card for each kind of trouble, grey while there is none of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ledgence.admin.bounds import count_each
from ledgence.admin.delivery import stuck_intents
from ledgence.admin.queue_lines import QueueLine
from ledgence.housekeeping import SILENCE_SECONDS_MAX
from ledgence.models import HousekeepingTurn, Lease, QuarantinedMessage, Queue, State, Task
from ledgence.models.delivery import STUCK_AFTER
from ledgence.status import COUNT_CAP, OpenSession
from ledgence.watch import Unserved
from ledgence.wording import span

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One kind of trouble: how much there is of it, what it means, and where it is looked at."""

    #: The model whose page it leads to: who may not see that sees no card.
    model: str
    value: str
    label: str
    #: What to know, or to do; only while there is trouble.
    hint: str
    address: str
    is_alarm: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """How much there is of each trouble, each counted to COUNT_CAP."""

    expired: int
    stuck: int
    failed: int
    failed_before: int
    quarantined: int
    is_kept: bool


def find_totals() -> Totals:
    """Count in one statement."""
    failed = Task.objects.filter(outcome=State.FAILED)
    expired, stuck, lately, before, quarantined, turned = count_each(
        Lease.objects.expired(),
        _stuck(),
        failed.filter(finished_at__gt=Now() - HOUR),
        failed.filter(finished_at__gt=Now() - 2 * HOUR, finished_at__lte=Now() - HOUR),
        QuarantinedMessage.objects.filter(received_at__gt=Now() - DAY),
        HousekeepingTurn.objects.filter(turned_at__gt=Now() - timedelta(seconds=SILENCE_SECONDS_MAX)),
        cap=COUNT_CAP,
    )
    return Totals(
        expired=expired,
        stuck=stuck,
        failed=lately,
        failed_before=before,
        quarantined=quarantined,
        is_kept=bool(turned),
    )


def _stuck() -> QuerySet[Any, Any]:
    """Return stuck intents, each once, of each cause as many as are counted."""
    first, *others = (part.values("pk")[: COUNT_CAP + 1] for part in stuck_intents())
    return first.union(*others)


def make_cards(
    totals: Totals, lines: Sequence[QueueLine], sessions: Sequence[OpenSession], unserved: Sequence[Unserved]
) -> list[Card]:
    """Return every card, the gravest trouble first."""
    return [
        _expired(totals),
        *_about_workers(sessions, unserved),
        *_about_work(totals, lines),
        *_about_queues(lines),
        _quarantined(totals),
    ]


def capped(count: int) -> str:
    """Say how many, where more than COUNT_CAP are not counted."""
    return f"{COUNT_CAP:,}+" if count > COUNT_CAP else f"{count:,}"


def address_of(model: str, **query: str) -> str:
    """Return the address of a list, narrowed."""
    return reverse(f"admin:ledgence_{model}_changelist", query=query or None)


def _card(model: str, count: int, label: str, hint: str, **query: str) -> Card:
    address = address_of(model, **query)
    return Card(model=model, value=capped(count), label=label, hint=hint, address=address, is_alarm=count > 0)


def _expired(totals: Totals) -> Card:
    hint = _("Their workers are gone or cut off. Housekeeping ends them within seconds.")
    if not totals.is_kept:
        hint = _("Nobody keeps house: start a worker with the database, or manage.py ledgence_recover.")
    label = ngettext("expired lease", "expired leases", totals.expired)
    return _card("lease", totals.expired, label, hint, state="expired")


def _about_workers(sessions: Sequence[OpenSession], unserved: Sequence[Unserved]) -> Iterator[Card]:
    silent = sum(session.is_silent for session in sessions)
    yield _card(
        "workersession",
        silent,
        ngettext("silent worker", "silent workers", silent),
        _("They died, hang, or cannot reach the task service. Look at their machines, and start others."),
        state="silent",
    )
    named = ", ".join(f"{one.queue}: {one.program} {one.version}" for one in unserved[:3])
    yield _card(
        "deliveryintent",
        len(unserved),
        ngettext("program without a worker", "programs without a worker", len(unserved)),
        _("No live worker serves due work of %(named)s.") % {"named": named},
        stuck="unserved",
    )


def _about_work(totals: Totals, lines: Sequence[QueueLine]) -> Iterator[Card]:
    yield _card(
        "deliveryintent",
        totals.stuck,
        ngettext("stuck intent", "stuck intents", totals.stuck),
        _("Work that is due for more than a minute, and nobody takes it."),
        stuck="yes",
    )
    waiting = [line for line in lines if line.oldest_seconds is not None and not line.queue.paused_at]
    oldest = max(waiting, key=lambda line: line.oldest_seconds or 0.0, default=None)
    seconds = (oldest and oldest.oldest_seconds) or 0.0
    yield Card(
        model="queue",
        value=span(timedelta(seconds=round(seconds))) if seconds >= 1 else "0 s",
        label=_("wait of the oldest due work"),
        hint=_("In queue %(queue)s.") % {"queue": oldest.queue.name} if oldest else "",
        address=reverse("admin:ledgence_queue_change", args=[oldest.queue.pk]) if oldest else address_of("queue"),
        is_alarm=seconds > STUCK_AFTER.total_seconds(),
    )
    yield _card(
        "task",
        totals.failed,
        ngettext("task failed in the last hour", "tasks failed in the last hour", totals.failed),
        _("In the hour before: %(count)s. See below why.") % {"count": capped(totals.failed_before)},
        state="failed",
    )


def _about_queues(lines: Sequence[QueueLine]) -> Iterator[Card]:
    storms = [line.queue.name for line in lines if line.is_storm]
    yield _card(
        "queue",
        len(storms),
        ngettext("retry storm", "retry storms", len(storms)),
        _("Attempts are tried again and again in %(queues)s. Pause it, and mend the cause.") % _names(storms),
    )
    paused = [line.queue.name for line in lines if line.queue.paused_at]
    yield _card(
        "queue",
        len(paused),
        ngettext("paused queue", "paused queues", len(paused)),
        _("Nothing is handed out of %(queues)s.") % _names(paused),
        paused="yes",
    )
    unpublished = [
        line.queue.name for line in lines if line.queue.mode == Queue.Mode.EXTERNAL and not line.is_published
    ]
    yield _card(
        "publisher",
        len(unpublished),
        ngettext("queue without a publisher", "queues without a publisher", len(unpublished)),
        _("Nobody announces the work of %(queues)s: start manage.py ledgence_publisher.") % _names(unpublished),
    )


def _quarantined(totals: Totals) -> Card:
    label = ngettext("message quarantined today", "messages quarantined today", totals.quarantined)
    hint = _("Something else writes into a queue's destination, or an old message was sent again.")
    return _card("quarantinedmessage", totals.quarantined, label, hint)


def _names(queues: Sequence[str]) -> dict[str, Any]:
    more = ngettext("%(count)d more", "%(count)d more", len(queues) - 3) % {"count": len(queues) - 3}
    return {"queues": ", ".join([*queues[:3], more] if len(queues) > 3 else queues)}
