"""What there is to say of a task that is terminal, or nowhere."""

from collections.abc import Iterator
from datetime import timedelta

from django.utils.translation import gettext as _

from ledgence.exit_status import advise_exit, explain_exit, name_exit
from ledgence.explanation.facts import ENDINGS_MAX, AttemptFacts, Facts
from ledgence.explanation.line import Code, Kind, Line, Target
from ledgence.models import Attempt, State
from ledgence.wording import clock_time, span

#: How much of a message is quoted.
QUOTED = 200


def explain_ended(facts: Facts) -> Iterator[Line]:
    """Say how and when the task ended."""
    attempt, finished_at = facts.attempt, facts.task.finished_at
    if attempt is None or finished_at is None:
        yield explain_nowhere()
        return
    when = {"at": clock_time(finished_at), "ago": span(facts.at - finished_at), "number": attempt.number}
    if facts.state is State.SUCCEEDED:
        text = _("It succeeded %(ago)s ago, at %(at)s, in attempt %(number)d.") % when
        yield _line(Code.SUCCEEDED, text, _("Nothing. To run it once more, requeue it as a copy."), attempt)
    elif facts.state is State.CANCELLED:
        text = _("It was cancelled %(ago)s ago, at %(at)s.") % when
        yield _line(Code.CANCELLED, text, _("To run it after all, requeue it."), attempt)
    else:
        how = {"outcome": outcome_of(attempt), **when}
        text = _("It failed %(ago)s ago, at %(at)s: attempt %(number)d %(outcome)s, and no other follows.") % how
        yield _line(Code.FAILED, text, _("When the cause is removed, requeue it."), attempt)
        yield from explain_reports(facts, attempt)


def explain_nowhere() -> Line:
    """Say that no row tells where the task is."""
    return Line(
        code=Code.NOWHERE,
        is_blocking=True,
        text=_("It has neither a delivery intent nor a lease nor an outcome with its attempt: the ledger is damaged."),
        advice=_("Run manage.py ledgence_audit, and look at what has written to the tables beside Ledgence."),
    )


def explain_reports(facts: Facts, attempt: AttemptFacts) -> Iterator[Line]:
    """Say whether the attempts end in the same way each time, what the last one reported, and what fits that."""
    if facts.alike > 1:
        words = {"count": facts.alike, "total": attempt.number, "outcome": outcome_of(attempt)}
        text = _("%(count)d of %(total)d attempts ended the same way: %(outcome)s.")
        if facts.alike == ENDINGS_MAX < attempt.number:
            text = _("The last %(count)d attempts, or more, ended the same way: %(outcome)s.")
        elif facts.alike < attempt.number:
            text = _("The last %(count)d of %(total)d attempts ended the same way: %(outcome)s.")
        yield _line(Code.ENDED_ALIKE, text % words, "", attempt)
    if told := _reported(facts, attempt):
        yield _line(Code.REPORTED, *told, attempt)


def _reported(facts: Facts, attempt: AttemptFacts) -> tuple[str, str] | None:
    """Return what is told of an attempt's end, and what to do about it."""
    told, host = attempt.reported, attempt.host or _("its machine")
    if attempt.outcome == Attempt.Outcome.TIMED_OUT:
        limit = span(timedelta(seconds=facts.task.timeout_seconds or 0))
        text = _("Its program was stopped when its time-out of %(limit)s was over.") % {"limit": limit}
        return text, _("Raise the program's timeout, or make the work shorter: split it.")
    if attempt.outcome == Attempt.Outcome.LOST:
        text = _("Its lease expired unrenewed: the worker on %(host)s died, hung, or was cut off.") % {"host": host}
        return text, _("Look at that machine, and at the worker's log.")
    if attempt.outcome == Attempt.Outcome.INTERRUPTED:
        text = _("Its worker on %(host)s was stopped, and gave it back. That does not count.") % {"host": host}
        return text, ""
    if told.error_class:
        words = {"error": told.error_name, "message": _cut(facts.quoted(told.message)), "place": told.place}
        text = _("It reported %(error)s: %(message)s") if told.message else _("It reported %(error)s")
        if told.place:
            text += _(", at %(place)s")
        advice = _("Mend the program there, or remove what it fails at. The attempt has the traceback.")
        return f"{(text % words).rstrip('.')}.", advice
    if told.exit_status is not None:
        words = {"status": name_exit(told.exit_status), "told": explain_exit(told.exit_status, attempt.outcome)}
        text = _("Exit status %(status)s: %(told)s.") % words
        return text, advise_exit(told.exit_status, attempt.outcome, attempt.host or "")
    return None


def outcome_of(attempt: AttemptFacts) -> str:
    """Say how an attempt ended, with the class of what its program raised, or how its process ended."""
    outcome, told = str(Attempt.Outcome(attempt.outcome).label) if attempt.outcome else _("runs"), attempt.reported
    if told.error_class:
        return _("%(outcome)s with %(error)s") % {"outcome": outcome, "error": told.error_name}
    if told.exit_status is not None and attempt.outcome == Attempt.Outcome.CRASHED:
        words = {"outcome": outcome, "status": name_exit(told.exit_status)}
        return _("%(outcome)s with exit status %(status)s") % words
    return outcome


def _cut(message: str) -> str:
    """Return the beginning of a message in one line."""
    line = " ".join(message.split())
    return line if len(line) <= QUOTED else f"{line[: QUOTED - 1]}…"


def attempt_target(attempt: AttemptFacts) -> Target:
    return Target(kind=Kind.ATTEMPT, id=str(attempt.id), label=_("attempt %(number)d") % {"number": attempt.number})


def _line(code: Code, text: str, advice: str, attempt: AttemptFacts) -> Line:
    return Line(code=code, is_blocking=False, text=text, advice=advice, target=attempt_target(attempt))
