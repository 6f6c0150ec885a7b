"""Who could take a queued task, and why none of them does."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ledgence.explanation.facts import Facts
from ledgence.explanation.line import Code, Kind, Line, Target
from ledgence.status import OpenSession
from ledgence.wording import span

#: How many sessions, versions and programs are named.
NAMED = 3


def explain_takers(facts: Facts) -> Iterator[Line]:
    """Say why no worker that is there can take the task now, at most one reason: the first of those there are."""
    serving = [session for session in facts.sessions if session.serves]
    if not serving:
        yield _no_session(facts)
    elif not facts.able:
        yield _no_program(facts, serving)
    elif not facts.able_and_heard:
        yield _all_silent(facts)
    elif not facts.taking:
        yield _all_draining(facts)
    elif not any(session.free for session in facts.taking):
        yield _all_busy(facts)


def _no_session(facts: Facts) -> Line:
    count = len(facts.sessions)
    words = {"count": count, "queue": facts.queue.name}
    if count:
        text = ngettext(
            "%(count)d worker session is open, and does not serve queue %(queue)s.",
            "%(count)d worker sessions are open, and none serves queue %(queue)s.",
            count,
        )
    else:
        text = _("No worker session is open that could serve queue %(queue)s.")
    advice = _("Is the queue's name right? Then start a worker that serves it: %(start)s.")
    advice %= {"start": start_worker(facts.queue.name)}
    return Line(code=Code.NO_SESSION, is_blocking=True, text=text % words, advice=advice, target=sessions_target())


def _no_program(facts: Facts, serving: Sequence[OpenSession]) -> Line:
    count = len(serving)
    words = {"count": count, "queue": facts.queue.name, "program": str(facts.program)}
    text = ngettext(
        "%(count)d worker session serves queue %(queue)s, and does not have program %(program)s.",
        "%(count)d worker sessions serve queue %(queue)s, and none has program %(program)s.",
        count,
    )
    text %= words
    if versions := sorted({version for session in serving for version in session.versions}):
        others = _("Of this program they have: %(versions)s.") % {"versions": ", ".join(versions[-NAMED:])}
        text = f"{text} {others}"
    advice = _(
        "Start a worker whose code has this version: %(start)s. Keep a version registered until its tasks are gone."
    ) % {"start": start_worker(facts.queue.name)}
    return Line(code=Code.NO_PROGRAM, is_blocking=True, text=text, advice=advice, target=sessions_target())


def _all_silent(facts: Facts) -> Line:
    silent = facts.able
    count = len(silent)
    text = ngettext(
        "%(count)d worker session could run it and is silent: %(named)s.",
        "%(count)d worker sessions could run it, and all are silent: %(named)s.",
        count,
    ) % {
        "count": count,
        "named": ", ".join(f"{session}, {_silence(session.heard_seconds)}" for session in silent[:NAMED]),
    }
    return Line(
        code=Code.ALL_SILENT,
        is_blocking=True,
        text=text,
        advice=_(
            "Their workers died, hang, or cannot reach the task service: look at those machines. To replace them: "
            "%(start)s."
        )
        % {"start": start_worker(facts.queue.name)},
        target=Target(kind=Kind.SESSION, id=str(silent[0].id), label=str(silent[0])),
    )


def _silence(seconds: float | None) -> str:
    return _("last heard of %(time)s ago") % {"time": span(timedelta(seconds=seconds or 0))}


def _all_draining(facts: Facts) -> Line:
    count = len(facts.able_and_heard)
    text = ngettext(
        "%(count)d worker session could run it and drains: it takes no more work.",
        "%(count)d worker sessions could run it, and all drain: they take no more work.",
        count,
    )
    advice = _("Somebody asked them to. Wait for those that take their place, or start others: %(start)s.")
    advice %= {"start": start_worker(facts.queue.name)}
    return Line(
        code=Code.ALL_DRAINING, is_blocking=True, text=text % {"count": count}, advice=advice, target=sessions_target()
    )


def _all_busy(facts: Facts) -> Line:
    able = facts.taking
    slots = sum(session.concurrency for session in able)
    programs = Counter(program for session in able for program in session.running)
    running = ", ".join(f"{count} × {program}" for program, count in programs.most_common(NAMED))
    text = ngettext(
        "All %(slots)d slots of the %(count)d worker session that could run it are busy: %(running)s.",
        "All %(slots)d slots of the %(count)d worker sessions that could run it are busy: %(running)s.",
        len(able),
    ) % {"slots": slots, "count": len(able), "running": running}
    advice = _("Wait for a slot, or start more workers: %(start)s.") % {"start": start_worker(facts.queue.name)}
    return Line(code=Code.ALL_BUSY, is_blocking=True, text=text, advice=advice, target=sessions_target())


def start_worker(queue: str) -> str:
    """Return the commands that start a worker of a queue, beside the database or elsewhere."""
    return _(
        "manage.py ledgence_worker --queue %(queue)s, or, without the database, "
        "ledgence-worker connect --queue %(queue)s"
    ) % {"queue": queue}


def sessions_target() -> Target:
    """Return the list of sessions."""
    return Target(kind=Kind.SESSION, id=None, label=_("worker sessions"))
