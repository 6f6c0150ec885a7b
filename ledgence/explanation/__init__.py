"""Why a task is not running: an ordered list of facts from the database, each with what to do about it."""

from uuid import UUID

from ledgence.explanation.active import explain_active
from ledgence.explanation.ended import explain_ended, explain_nowhere
from ledgence.explanation.facts import Facts
from ledgence.explanation.finding import find_facts
from ledgence.explanation.line import Code, Explanation, Kind, Line, Target
from ledgence.explanation.queued import explain_queued

__all__ = ["Code", "Explanation", "Facts", "Kind", "Line", "Target", "explain", "explain_facts", "find_facts"]


def explain(task: UUID, *, using: str) -> Explanation:
    """Explain why a task is not running, or who runs it, in the current language.

    Reads at most four statements, whatever the ledger holds; locks nothing. Raises NotFound.
    """
    return explain_facts(find_facts(task, using=using))


def explain_facts(facts: Facts) -> Explanation:
    """Put facts into lines, in the order in which they matter."""
    if facts.task.outcome is not None:
        lines = tuple(explain_ended(facts))
    elif facts.lease is not None:
        lines = tuple(explain_active(facts, facts.lease))
    elif facts.intent is not None:
        lines = tuple(explain_queued(facts, facts.intent))
    else:
        lines = (explain_nowhere(),)
    return Explanation(task_id=facts.task.id, revision=facts.task.revision, state=facts.state, lines=lines)
