"""What an operator should look at first: one card for each kind of trouble, grey while there is none of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now
from django.urls import reverse
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ledgence.admin.bounds import count_each
from ledgence.admin.delivery import stuck_intents
from ledgence.admin.queue_lines import QueueLine
from ledgence.admin.trouble import Trouble
from ledgence.housekeeping import SILENCE_SECONDS_MAX
from ledgence.models import HousekeepingTurn, Lease, QuarantinedMessage, Queue, State, Task
from ledgence.models.delivery import STUCK_AFTER
from ledgence.status import COUNT_CAP, OpenSession
from ledgence.watch import Unserved
from ledgence.wording import clock_time, span, visible

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
    totals: Totals,
    lines: Sequence[QueueLine],
    sessions: Sequence[OpenSession],
    unserved: Sequence[Unserved],
    trouble: Sequence[Trouble],
) -> list[Card]:
    """Return every card: causes before what follows from them."""
    return [
        _unpublished(lines),
        _expired(totals),
        *_about_workers(sessions, unserved),
        _storms(lines, trouble),
        _failed(totals, [one for one in trouble if one.is_new]),
        _paused(lines),
        *_about_work(totals, lines),
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
        hint = _(
            "No process does the housekeeping that ends them: start manage.py ledgence_recover, or a worker beside the "
            "database."
        )
    label = ngettext("expired lease", "expired leases", totals.expired)
    return _card("lease", totals.expired, label, hint, state="expired")


def _about_workers(sessions: Sequence[OpenSession], unserved: Sequence[Unserved]) -> Iterator[Card]:
    silent = sum(session.is_silent for session in sessions)
    yield _card(
        "workersession",
        silent,
        ngettext("silent worker", "silent workers", silent),
        ngettext(
            "It died, hangs, or cannot reach the task service. Look at its machine, and start another.",
            "They died, hang, or cannot reach the task service. Look at their machines, and start others.",
            silent,
        ),
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
        label=_("wait of the oldest due work, without paused queues"),
        hint=_("In queue %(queue)s.") % {"queue": oldest.queue.name} if oldest else "",
        address=reverse("admin:ledgence_queue_change", args=[oldest.queue.pk]) if oldest else address_of("queue"),
        is_alarm=seconds > STUCK_AFTER.total_seconds(),
    )


def _failed(totals: Totals, new: Sequence[Trouble]) -> Card:
    """Make the card of failed tasks, an alarm where they are more than in the hour before, or of another kind."""
    hint = _("In the hour before: %(count)s. See below why.") % {"count": capped(totals.failed_before)}
    if new:
        named = ", ".join(f"{one.error} ({one.program})" for one in new[:3])
        hint = _("New: %(errors)s.") % {"errors": named} + " " + hint
    return Card(
        model="task",
        value=capped(totals.failed),
        label=ngettext("task failed in the last hour", "tasks failed in the last hour", totals.failed),
        hint=hint,
        address=new[0].address if len(new) == 1 else address_of("task", state="failed"),
        is_alarm=bool(new) or totals.failed > totals.failed_before,
    )


def _storms(lines: Sequence[QueueLine], trouble: Sequence[Trouble]) -> Card:
    """Make the card of retry storms, which leads to a task that is tried again."""
    storms = [line.queue for line in lines if line.is_storm]
    hint = _("Attempts are tried again and again in %(queues)s. Pause it, and mend the cause.")
    if storms and all(queue.paused_at for queue in storms):
        hint = _("Attempts were tried again and again in %(queues)s, paused now: counts quiet within minutes.")
    own = [one for one in trouble if one.retried and one.queue in {queue.pk for queue in storms}]
    example = max(own, key=lambda one: one.retried, default=None)
    return Card(
        model="task" if example else "queue",
        value=str(len(storms)),
        label=ngettext("retry storm", "retry storms", len(storms)),
        hint=hint % _names([queue.name for queue in storms]),
        address=example.address if example else address_of("queue"),
        is_alarm=bool(storms),
    )


def _paused(lines: Sequence[QueueLine]) -> Card:
    paused = [line.queue for line in lines if line.queue.paused_at]
    hint = _("Nothing is handed out of %(queues)s.") % _names([queue.name for queue in paused])
    if len(paused) == 1:
        [queue] = paused
        facts = {
            "queue": queue.name,
            "who": visible(queue.paused_by),
            "since": clock_time(queue.paused_at),
            "why": visible(Truncator(queue.pause_reason).chars(100)),
        }
        hint = _("%(queue)s, by %(who)s since %(since)s: “%(why)s”.") % facts
    return Card(
        model="queue",
        value=str(len(paused)),
        label=ngettext("paused queue", "paused queues", len(paused)),
        hint=hint,
        address=_page_of(paused) or address_of("queue", paused="yes"),
        is_alarm=bool(paused),
    )


def _unpublished(lines: Sequence[QueueLine]) -> Card:
    bare = [line.queue for line in lines if line.queue.mode == Queue.Mode.EXTERNAL and not line.is_published]
    hint = _("Nobody announces the work of %(queues)s: start manage.py ledgence_publisher --delivery-config FILE.")
    return Card(
        model="queue",
        value=str(len(bare)),
        label=ngettext("queue without a publisher", "queues without a publisher", len(bare)),
        hint=hint % _names([queue.name for queue in bare]),
        address=_page_of(bare) or address_of("queue"),
        is_alarm=bool(bare),
    )


def _page_of(queues: Sequence[Any]) -> str:
    """Return the address of the one queue; empty for none or several."""
    return reverse("admin:ledgence_queue_change", args=[queues[0].pk]) if len(queues) == 1 else ""


def _quarantined(totals: Totals) -> Card:
    label = ngettext("message quarantined today", "messages quarantined today", totals.quarantined)
    hint = _("Something else writes into a queue's destination, or an old message was sent again.")
    return _card("quarantinedmessage", totals.quarantined, label, hint)


def _names(queues: Sequence[str]) -> dict[str, Any]:
    more = ngettext("%(count)d more", "%(count)d more", len(queues) - 3) % {"count": len(queues) - 3}
    return {"queues": ", ".join([*queues[:3], more] if len(queues) > 3 else queues)}
