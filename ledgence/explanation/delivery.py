"""How the announcement of a queued task goes, in a queue that hands out its work through a broker."""

import json
from collections.abc import Iterator
from datetime import timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ledgence.explanation.facts import Facts, IntentFacts
from ledgence.explanation.line import Code, Kind, Line, Target
from ledgence.wording import span

#: The last events of a publication that was sent, and that the broker has not confirmed.
TRIED = ("failed", "uncertain")
#: How much of a broker's words is shown.
REASON_CHARACTERS = 200


def explain_delivery(facts: Facts, intent: IntentFacts) -> Iterator[Line]:
    """Say who publishes the queue, and what became of this task's publication."""
    yield from _publisher(facts, intent)
    # Nothing is sent before its time, nor while the queue is paused.
    if facts.is_due and facts.queue.paused_at is None:
        yield _publication(facts, intent)
    if facts.event is not None and facts.event.kind == "deferred":
        text = _("A worker received it %(ago)s ago and could not run it%(reason)s; it is announced again.")
        words = {"ago": span(facts.at - facts.event.happened_at), "reason": _reason(facts)}
        yield Line(
            code=Code.DEFERRED,
            is_blocking=False,
            text=text % words,
            advice=_("See that every worker that receives from this destination has the program's version."),
            target=_intent(facts),
        )


def _publisher(facts: Facts, intent: IntentFacts) -> Iterator[Line]:
    publisher = facts.publisher
    # What the broker has already, a worker may still receive.
    is_blocking = intent.confirmed_at is None
    if publisher is None or not publisher.is_live:
        yield _no_publisher(facts, is_blocking=is_blocking)
    elif publisher.failure:
        text = _("The publisher of queue %(queue)s on %(host)s fails: %(failure)s") % {
            "queue": facts.queue.name,
            "host": publisher.host,
            "failure": publisher.failure[:REASON_CHARACTERS],
        }
        advice = _("Look at the broker, and at the log of the publisher.")
        target = Target(kind=Kind.PUBLISHER, id=str(publisher.id), label=_("publisher"))
        yield Line(code=Code.PUBLISHER_FAILS, is_blocking=is_blocking, text=text, advice=advice, target=target)


def _no_publisher(facts: Facts, *, is_blocking: bool) -> Line:
    words: dict[str, object] = {"queue": facts.queue.name}
    if facts.publisher:
        words |= {"host": facts.publisher.host, "time": span(timedelta(seconds=facts.publisher.turned_seconds))}
        text = _("No publisher announces queue %(queue)s: the last one, on %(host)s, turned %(time)s ago.")
    else:
        text = _("No publisher announces queue %(queue)s.")
    advice = _(
        "Start one: manage.py ledgence_publisher --delivery-config FILE. Or give the queue back to the task service: "
        "manage.py ledgence_route %(queue)s --integrated --reason WHY."
    ) % {"queue": facts.queue.name}
    target = Target(kind=Kind.PUBLISHER, id=None, label=_("publishers"))
    return Line(code=Code.NO_PUBLISHER, is_blocking=is_blocking, text=text % words, advice=advice, target=target)


def _publication(facts: Facts, intent: IntentFacts) -> Line:
    """Say what became of the present publication: exactly one of what may have."""
    next_at = intent.next_publish_at
    words: dict[str, object] = {"next": _when(facts, intent), "count": intent.publications, "reason": _reason(facts)}
    if next_at is None:
        text = _("It was never to be announced, though its queue is external.")
        return _line(Code.UNANNOUNCED, text, _("Republish it."), facts, is_blocking=True)
    if intent.confirmed_at is not None:
        return _announced(facts, intent, words)
    if intent.is_held:
        if next_at > facts.at:
            text, advice = _("A publisher is sending it now."), _("Look again.")
        else:
            text = _("The publisher that was sending it is gone, and no other has taken it over yet.")
            advice = _("Another publisher of the queue sends it again. Is one running?")
        return _line(Code.BEING_SENT, text, advice, facts, is_blocking=next_at <= facts.at)
    if intent.refusals:
        words |= {"refusals": intent.refusals}
        text = ngettext(
            "The broker refused it%(reason)s; %(next)s.",
            "The broker has refused it %(refusals)d times in a row%(reason)s; %(next)s.",
            intent.refusals,
        )
        advice = _("Remove the broker's reason; then republish it, or wait for the next try.")
        return _line(Code.REFUSED, text % words, advice, facts, is_blocking=True)
    if facts.event is not None and facts.event.kind in TRIED:
        text = ngettext(
            "It was sent %(count)d time, and the broker did not confirm it%(reason)s; %(next)s.",
            "It was sent %(count)d times, and the broker did not confirm it%(reason)s; %(next)s.",
            intent.publications,
        )
        advice = _("Look at the broker, and at the log of the publisher.")
        return _line(Code.UNCONFIRMED, text % words, advice, facts, is_blocking=True)
    if intent.epoch == 1:
        text = _("It is not announced yet; %(next)s.") % words
    else:
        text = _("It is to be announced anew; %(next)s.") % words
    return _line(Code.UNANNOUNCED, text, _("See that a publisher of the queue runs."), facts, is_blocking=True)


def _announced(facts: Facts, intent: IntentFacts, words: dict[str, object]) -> Line:
    first, last = (at and span(facts.at - at) for at in (intent.first_published_at, intent.last_published_at))
    words |= {"first": first or "", "last": last or ""}
    text = ngettext(
        "It was announced %(last)s ago, the broker has it, and no worker has claimed it; %(next)s.",
        "It was announced %(count)d times, first %(first)s and last %(last)s ago; the broker has it, and no worker has "
        "claimed it; %(next)s.",
        intent.publications,
    )
    advice = _("See that a worker receives from %(destination)s, and how many messages wait there before it.")
    advice %= {"destination": facts.queue.destination}
    return _line(Code.ANNOUNCED, text % words, advice, facts, is_blocking=False)


def _when(facts: Facts, intent: IntentFacts) -> str:
    """Say when it is sent next."""
    if intent.next_publish_at is None:
        return ""
    words = {"time": span(intent.next_publish_at - facts.at)}
    if intent.next_publish_at > facts.at:
        return _("it is sent next in %(time)s") % words
    return _("it is due to be sent for %(time)s") % words


def _reason(facts: Facts) -> str:
    """Return what was told of the last event: " (timed out)"; empty without."""
    try:
        detail = json.loads(facts.event.detail or "") if facts.event else None
    except ValueError:
        detail = None
    reason = detail.get("reason") if isinstance(detail, dict) else None
    return f" ({str(reason)[:REASON_CHARACTERS]})" if reason else ""


def _line(code: Code, text: str, advice: str, facts: Facts, *, is_blocking: bool) -> Line:
    return Line(code=code, is_blocking=is_blocking, text=text, advice=advice, target=_intent(facts))


def _intent(facts: Facts) -> Target:
    return Target(kind=Kind.INTENT, id=str(facts.task.id), label=_("delivery intent"))
