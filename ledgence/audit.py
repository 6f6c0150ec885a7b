"""The invariants of the ledger: what holds at every commit, as statements that return what breaks it."""

from collections.abc import Iterator
from dataclasses import dataclass

from ledgence import sql

INVARIANTS = (
    "one_state",
    "attempts_without_gaps",
    "cause_is_explained",
    "lease_is_last_attempt",
    "running_attempt_has_lease",
    "one_success",
    "outcome_is_explained",
    "charges_are_counted",
    "intent_is_next_generation",
    "settled_by_live_owner",
    "revision_is_explained",
    "external_intent_is_delivered",
    "no_orphans",
    "no_key_twice",
    "cancel_is_not_forgotten",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An invariant that does not hold, and the tasks or attempts that break it."""

    invariant: str
    ids: tuple[str, ...]


def audit(*, using: str) -> Iterator[Violation]:
    """Check every invariant, each in its own snapshot, and yield those that do not hold. Reads whole tables."""
    for invariant in INVARIANTS:
        if rows := sql.run(f"audit/{invariant}", using):
            yield Violation(invariant=invariant, ids=tuple(row[0] for row in rows))
