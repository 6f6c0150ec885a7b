"""Who runs an active task, and whether they still do."""

from collections.abc import Iterator
from datetime import timedelta

from django.utils.translation import gettext as _

from ledgence.explanation.facts import Facts, HolderFacts, LeaseFacts
from ledgence.explanation.line import Code, Kind, Line, Target
from ledgence.explanation.takers import start_worker
from ledgence.housekeeping import SILENCE_SECONDS_MAX
from ledgence.models.session import silent_after
from ledgence.wording import clock_time, span


def explain_active(facts: Facts, lease: LeaseFacts) -> Iterator[Line]:
    """Say who holds the task since when, until when, and what stands in the way of its end."""
    holder = facts.holder
    if lease.expires_at <= facts.at:
        yield from _expired(facts, lease)
    if holder is not None:
        yield from _holder(facts, lease, holder)
    if lease.expires_at > facts.at:
        yield _live(facts, lease)
    if lease.cancel_requested_at is not None:
        yield _cancelling(facts, lease, lease.cancel_requested_at - facts.at)
    else:
        yield from _time_out(facts)


def _expired(facts: Facts, lease: LeaseFacts) -> Iterator[Line]:
    text = _("Its lease is over for %(time)s: nobody has authority over attempt %(number)d any more.")
    words = {"time": span(facts.at - lease.expires_at), "number": lease.number}
    seconds = facts.housekeeping_seconds
    if seconds is not None and seconds <= SILENCE_SECONDS_MAX:
        advice = _("Housekeeping turned %(time)s ago and ends it within seconds. If it stays, a transaction holds it.")
        advice %= {"time": span(timedelta(seconds=seconds))}
        yield _line(Code.LEASE_EXPIRED, text % words, advice, lease_target(facts), is_blocking=True)
        return
    advice = _("Housekeeping ends it, as soon as a process does that; or force the lease to expire now.")
    yield _line(Code.LEASE_EXPIRED, text % words, advice, lease_target(facts), is_blocking=True)
    if seconds is None:
        text = _("No process does the housekeeping that ends expired leases: none ever has on this database.")
    else:
        text = _("No process does the housekeeping that ends expired leases: the last one did it %(time)s ago.")
        text %= {"time": span(timedelta(seconds=seconds))}
    advice = _("Start manage.py ledgence_recover, or a worker beside the database.")
    yield _line(Code.NO_HOUSEKEEPING, text, advice, None, is_blocking=True)


def _holder(facts: Facts, lease: LeaseFacts, holder: HolderFacts) -> Iterator[Line]:
    target = Target(kind=Kind.SESSION, id=str(holder.id), label=str(holder))
    attempt = facts.attempt
    words = {"number": lease.number, "worker": str(holder)}
    if attempt is None or attempt.claimed_at is None:
        text = _("Attempt %(number)d is held by worker %(worker)s.") % words
    else:
        words |= {"time": span(facts.at - attempt.claimed_at), "at": clock_time(attempt.claimed_at)}
        text = _("Attempt %(number)d is held by worker %(worker)s for %(time)s, since %(at)s.") % words
    yield _line(Code.HELD, text, "", target)
    if attempt is not None and attempt.authorized_at is None:
        text = _("Its worker has not asked yet whether its program may start.")
        yield _line(Code.UNAUTHORIZED, text, _("Look at the worker's log, if this stays."), target)
    advice = _("Look at its machine. To replace it: %(start)s.") % {"start": start_worker(facts.queue.name)}
    if lease.expires_at > facts.at:
        ends = _("Its lease expires in %(time)s, if it is not renewed; force it to expire if you cannot wait.")
        advice = f"{ends % {'time': span(lease.expires_at - facts.at)}} {advice}"
    if holder.closed_at is not None or holder.expires_at <= facts.at:
        over = span(facts.at - (holder.closed_at or holder.expires_at))
        text = _("That worker's session ended %(time)s ago: it will not settle the attempt.") % {"time": over}
        yield _line(Code.HOLDER_ENDED, text, advice, target, is_blocking=True)
    elif holder.extended_at is not None and facts.at - holder.extended_at >= silent_after():
        silence = span(facts.at - holder.extended_at)
        text = _("That worker is silent: it was last heard of %(time)s ago. It died, hangs, or is cut off.")
        yield _line(Code.HOLDER_SILENT, text % {"time": silence}, advice, target, is_blocking=True)


def _live(facts: Facts, lease: LeaseFacts) -> Line:
    left = lease.expires_at - facts.at
    # A renewal sets the expiry to a lease's length from then on, unless a bound comes first.
    renewed = timedelta(seconds=facts.lease_seconds) - left
    if lease.expires_at == lease.bound_at or renewed < timedelta(0):
        text = _("Its lease expires in %(time)s, unless it is renewed.") % {"time": span(left)}
        return _line(Code.LEASE_LIVE, text, "", lease_target(facts))
    text = _("Its lease expires in %(time)s, unless it is renewed; it was granted or last renewed %(ago)s ago.")
    text %= {"time": span(left), "ago": span(renewed)}
    if renewed.total_seconds() <= facts.lease_seconds / 2:
        return _line(Code.LEASE_LIVE, text, "", lease_target(facts))
    advice = _("Workers renew every quarter of a lease: this one is cut off, starved or dead. Look at its machine.")
    return _line(Code.NOT_RENEWED, text, advice, lease_target(facts))


def _cancelling(facts: Facts, lease: LeaseFacts, since: timedelta) -> Line:
    text = _("It was asked to stop %(time)s ago, and ends cancelled whatever its program does.") % {"time": span(since)}
    advice = _("Wait.")
    if lease.bound_at is not None and lease.bound_at > facts.at:
        advice = _("Wait: it ends in %(time)s at the latest.") % {"time": span(lease.bound_at - facts.at)}
    return _line(Code.CANCEL_REQUESTED, text, advice, lease_target(facts))


def _time_out(facts: Facts) -> Iterator[Line]:
    attempt, seconds = facts.attempt, facts.task.timeout_seconds
    if attempt is None or attempt.authorized_at is None or seconds is None:
        return
    ends_at = attempt.authorized_at + timedelta(seconds=seconds)
    if ends_at > facts.at:
        text = _("Its program is stopped when its time-out of %(limit)s is over, in %(time)s.")
    else:
        text = _("Its time-out of %(limit)s has been over for %(time)s: its program is being stopped.")
    words = {"limit": span(timedelta(seconds=seconds)), "time": span(ends_at - facts.at)}
    yield _line(Code.TIME_OUT, text % words, "", lease_target(facts))


def lease_target(facts: Facts) -> Target:
    return Target(kind=Kind.LEASE, id=str(facts.task.id), label=_("lease"))


def _line(code: Code, text: str, advice: str, target: Target | None, *, is_blocking: bool = False) -> Line:
    return Line(code=code, is_blocking=is_blocking, text=text, advice=advice, target=target)
