"""What there is to say of a task that is terminal, or nowhere."""

from collections.abc import Iterator

from django.utils.translation import gettext as _

from ledgence.explanation.facts import AttemptFacts, Facts
from ledgence.explanation.line import Code, Kind, Line, Target
from ledgence.models import Attempt, State
from ledgence.wording import clock_time, span


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
        advice = _("Read what the attempt reported. When the cause is removed, requeue it.")
        yield _line(Code.FAILED, text, advice, attempt)


def explain_nowhere() -> Line:
    """Say that no row tells where the task is."""
    return Line(
        code=Code.NOWHERE,
        is_blocking=True,
        text=_("It has neither a delivery intent nor a lease nor an outcome with its attempt: the ledger is damaged."),
        advice=_("Run manage.py ledgence_audit, and look at what has written to the tables beside Ledgence."),
    )


def outcome_of(attempt: AttemptFacts) -> str:
    """Say how an attempt ended, with the class of what its program raised."""
    outcome = str(Attempt.Outcome(attempt.outcome).label) if attempt.outcome else _("runs")
    if not attempt.error_class:
        return outcome
    return _("%(outcome)s with %(error)s") % {"outcome": outcome, "error": attempt.error_class.rpartition(".")[2]}


def attempt_target(attempt: AttemptFacts) -> Target:
    return Target(kind=Kind.ATTEMPT, id=str(attempt.id), label=_("attempt %(number)d") % {"number": attempt.number})


def _line(code: Code, text: str, advice: str, attempt: AttemptFacts) -> Line:
    return Line(code=code, is_blocking=False, text=text, advice=advice, target=attempt_target(attempt))
