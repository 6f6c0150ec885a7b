"""Why a queued task waits: its time, its queue, the workers, and the work that comes first."""

from collections.abc import Iterator
from datetime import timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ledgence.explanation.delivery import explain_delivery
from ledgence.explanation.ended import attempt_target, explain_reports, outcome_of
from ledgence.explanation.facts import UNTAKEN_AFTER, Facts, IntentFacts
from ledgence.explanation.line import Code, Kind, Line, Target
from ledgence.explanation.takers import explain_takers, sessions_target, start_worker
from ledgence.status import COUNT_CAP
from ledgence.wording import clock_time, span


def explain_queued(facts: Facts, intent: IntentFacts) -> Iterator[Line]:
    """Say what holds the task up, the nearest cause first, then what else explains its wait."""
    lines = [
        *_time(facts, intent),
        *_pause(facts),
        *explain_takers(facts),
        *(explain_delivery(facts, intent) if facts.queue.is_external else ()),
        *_order(facts),
    ]
    yield from lines
    if not facts.queue.is_external and facts.ahead == 0 and not any(line.is_blocking for line in lines):
        yield from _readiness(facts, intent)


def _time(facts: Facts, intent: IntentFacts) -> Iterator[Line]:
    words = {"number": intent.generation, "at": clock_time(intent.available_at)}
    words["time"] = span(intent.available_at - facts.at)
    if not facts.is_due:
        text = _("It is not due: attempt %(number)d may start in %(time)s, at %(at)s.") % words
        target = Target(kind=Kind.INTENT, id=str(facts.task.id), label=_("delivery intent"))
        yield Line(code=Code.NOT_DUE, is_blocking=True, text=text, advice=_("Wait, or run it now."), target=target)
    last = facts.attempt
    if last is None or last.finished_at is None:
        return
    words = {"number": last.number, "outcome": outcome_of(last), "ago": span(facts.at - last.finished_at)}
    if intent.cause == "requeued":
        text = _("It was requeued after attempt %(number)d %(outcome)s, %(ago)s ago.") % words
        yield Line(code=Code.REQUEUED, is_blocking=False, text=text, target=attempt_target(last))
        return
    words |= {"delay": span(intent.available_at - last.finished_at)}
    words |= {"charged": intent.charged, "maximum": facts.task.max_attempts}
    text = _("It is tried again: attempt %(number)d %(outcome)s %(ago)s ago, and the next one follows after %(delay)s.")
    used = _("%(charged)d of %(maximum)d attempts are used up.")
    text = f"{text % words} {used % words}"
    yield Line(code=Code.RETRY, is_blocking=False, text=text, target=attempt_target(last))
    yield from explain_reports(facts, last)


def _pause(facts: Facts) -> Iterator[Line]:
    queue = facts.queue
    if queue.paused_at is None:
        return
    text = _("Queue %(queue)s is paused: by %(name)s %(ago)s ago, at %(at)s, because “%(reason)s”.") % {
        "queue": queue.name,
        "name": queue.paused_by,
        "ago": span(facts.at - queue.paused_at),
        "at": clock_time(queue.paused_at),
        "reason": queue.pause_reason,
    }
    advice = _("Ask them, or resume the queue when the reason is gone.")
    if queue.paused_until is not None:
        advice = _("Housekeeping resumes it in %(time)s, at %(at)s; or resume it before, when the reason is gone.")
        words = {"time": span(queue.paused_until - facts.at), "at": clock_time(queue.paused_until)}
        if queue.paused_until <= facts.at:
            advice = _("Its pause is over since %(time)s: see that housekeeping runs, or resume it.")
        advice %= words
    yield Line(code=Code.PAUSED, is_blocking=True, text=text, advice=advice, target=queue_target(facts))


def _order(facts: Facts) -> Iterator[Line]:
    # A broker delivers in no order.
    if not facts.ahead or facts.queue.is_external:
        return
    words = {"count": f"{COUNT_CAP:,}+" if facts.ahead > COUNT_CAP else facts.ahead, "queue": facts.queue.name}
    text = ngettext(
        "%(count)s due task of queue %(queue)s comes before it, by priority and time.",
        "%(count)s due tasks of queue %(queue)s come before it, by priority and time.",
        facts.ahead,
    )
    advice = _("Wait; if the queue grows, start more workers: %(start)s.") % {"start": start_worker(facts.queue.name)}
    yield Line(code=Code.AHEAD, is_blocking=False, text=text % words, advice=advice, target=queue_target(facts))


def _readiness(facts: Facts, intent: IntentFacts) -> Iterator[Line]:
    free = sum(session.free for session in facts.taking)
    waited = facts.at - intent.available_at
    words = {"count": free, "time": span(waited)}
    if waited <= UNTAKEN_AFTER:
        text = ngettext(
            "It is due for %(time)s, and %(count)d slot is free for it: a worker is about to take it.",
            "It is due for %(time)s, and %(count)d slots are free for it: a worker is about to take it.",
            free,
        )
        yield Line(code=Code.READY, is_blocking=False, text=text % words, advice=_("Look again."))
        if not facts.has_hints:
            text = _("Hints are off: due work is found by polling, within about a second.")
            yield Line(code=Code.HINTS_OFF, is_blocking=False, text=text)
        return
    text = ngettext(
        "It is due for %(time)s, %(count)d slot is free for it, and no worker takes it.",
        "It is due for %(time)s, %(count)d slots are free for it, and no worker takes it.",
        free,
    )
    advice = _("Look at the logs of these workers: they stop, or something goes wrong when they ask for work.")
    yield Line(code=Code.UNTAKEN, is_blocking=True, text=text % words, advice=advice, target=sessions_target())
    if facts.old_snapshot is not None:
        pid, seconds = facts.old_snapshot
        text = _("Database process %(pid)d has held a snapshot for %(time)s, which makes searches for work slow.")
        yield Line(
            code=Code.OLD_SNAPSHOT,
            is_blocking=False,
            text=text % {"pid": pid, "time": span(timedelta(seconds=seconds))},
            advice=_("End that transaction."),
        )


def queue_target(facts: Facts) -> Target:
    label = _("queue %(queue)s") % {"queue": facts.queue.name}
    return Target(kind=Kind.QUEUE, id=str(facts.queue.id), label=label)
