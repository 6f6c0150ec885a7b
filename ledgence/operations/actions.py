"""Operator actions: each is recorded with its answers in its own transaction, and replayed by its id."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ledgence import sql
from ledgence.models import OperatorAction, OperatorActionTarget
from ledgence.transitions import transition
from ledgence_worker.errors import Conflict, InvalidInput

# How many rows one action may name; more are acted on in several actions.
TARGETS_MAX = 1000
#: How many characters of a reason the pages and the commands ask for, at least and at most.
REASON_LENGTHS = (5, 1000)
#: Of more rows than these they ask for the number, so that nobody acts on thousands by a slip.
TYPED_ABOVE = 100
# How many characters of an operator's name are kept.
NAME_MAX = 255

#: The answers that tell that a row was left as it was, and why. Every other answer tells what was changed.
UNCHANGED = frozenset(
    {
        "already",
        "ended",
        "moved_on",
        "no_such_queue",
        "not_active",
        "not_found",
        "not_queued",
        "not_reached",
        "not_terminal",
        "refused",
        "succeeded",
        "terminal",
    }
)

type Kind = OperatorAction.Kind
#: The rows that an action names, each with the revision that the operator saw (None: it has none).
type Targets = Mapping[str, int | None]
#: The same by id. Whoever does not say what was seen acts on a row whatever became of it.
type Seen[K] = Mapping[K, int | None] | Iterable[K]
type Answers = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Who acts, why, and under which id: sending the same id again gives the same answers.

    ``user_id`` is the account's primary key, None for a program; ``name`` stays when the account is gone.
    """

    action_id: UUID
    name: str
    reason: str
    user_id: Any = None


def record(
    operator: Operator,
    kind: Kind,
    targets: Targets,
    decide: Callable[[], Answers],
    *,
    using: str,
    parameters: Mapping[str, Any] | None = None,
) -> Answers:
    """Run ``decide`` once for an action's id, in one transaction with the record of who, why and what came of it.

    ``parameters`` is what the operator chose beside the rows, as values of JSON. Raises InvalidInput (no reason, no or
    too many targets), Conflict (the id was used for something else), Busy.
    """
    check_operator(operator, kind)
    if not 0 < len(targets) <= TARGETS_MAX:
        raise InvalidInput(f"{kind} {operator.action_id}: {len(targets)} rows; an action takes 1 to {TARGETS_MAX}.")
    with transition(using, what=kind):
        if not begin(operator, kind, parameters, matched=len(targets), using=using):
            return _replay(operator, kind, targets, parameters, using=using)
        answers = decide()
        OperatorActionTarget.objects.using(using).bulk_create(
            OperatorActionTarget(
                action_id=operator.action_id, target=target, expected_revision=revision, answer=answers[target]
            )
            for target, revision in targets.items()
        )
        skipped = count_skipped(answers)
        OperatorAction.objects.using(using).filter(pk=operator.action_id).update(
            changed=len(answers) - sum(skipped.values()), skipped=skipped or None
        )
        return answers


def targets_of[K](rows: Seen[K]) -> Targets:
    """Return rows as they are recorded: by id as text, with what was seen of each."""
    return {str(row): seen for row, seen in (rows if isinstance(rows, Mapping) else dict.fromkeys(rows)).items()}


def count_skipped(answers: Answers) -> dict[str, int]:
    """Count the answers that tell that nothing was changed, by answer."""
    return dict(Counter(answer for answer in answers.values() if answer in UNCHANGED))


def check_operator(operator: Operator, kind: Kind) -> None:
    """Refuse a reason or a name that says nothing or cannot be kept. Raises InvalidInput."""
    _check_text("reason", operator.reason, f"{kind} {operator.action_id}")
    _check_text("name", operator.name, f"{kind} {operator.action_id}", limit=NAME_MAX)


def _check_text(field: str, text: str, what: str, *, limit: int | None = None) -> None:
    if not text.strip():
        raise InvalidInput(f"{what}: a {field} is required.")
    if "\0" in text or text.encode("utf-8", "replace").decode() != text:
        raise InvalidInput(f"{what}: the {field} holds a NUL or half of a surrogate pair, which no text may.")
    if limit is not None and len(text) > limit:
        raise InvalidInput(f"{what}: the {field} has {len(text)} characters; at most {limit} are kept.")


def begin(
    operator: Operator,
    kind: Kind,
    parameters: Mapping[str, Any] | None,
    *,
    matched: int,
    scope: Mapping[str, Any] | None = None,
    state: OperatorAction.State = OperatorAction.State.DONE,
    using: str,
) -> bool:
    """Insert the action's row; False when its id exists. Waits for a concurrent one with the same id."""
    return bool(
        sql.run(
            "begin_action",
            using,
            {
                "id": operator.action_id,
                "kind": kind.value,
                "actor": operator.user_id,
                "actor_name": operator.name,
                "reason": operator.reason,
                "parameters": None if parameters is None else json.dumps(dict(parameters)),
                "scope": None if scope is None else json.dumps(dict(scope)),
                "state": state.value,
                "matched": matched,
            },
        )
    )


def find_repeated(
    operator: Operator,
    kind: Kind,
    parameters: Mapping[str, Any] | None,
    *,
    scope: Mapping[str, Any] | None = None,
    using: str,
) -> OperatorAction:
    """Return the action that was recorded under the operator's id. Raises Conflict if it is not the same one."""
    action = OperatorAction.objects.using(using).get(pk=operator.action_id)
    chosen = [None if value is None else dict(value) for value in (parameters, scope)]
    if action.kind != kind or [action.parameters, action.scope] != chosen:
        raise _used_before(action)
    return action


def _replay(
    operator: Operator, kind: Kind, targets: Targets, parameters: Mapping[str, Any] | None, *, using: str
) -> Answers:
    action = find_repeated(operator, kind, parameters, using=using)
    rows = list(action.targets.all())
    if {row.target: row.expected_revision for row in rows} != dict(targets):
        raise _used_before(action)
    return {row.target: row.answer for row in rows}


def _used_before(action: OperatorAction) -> Conflict:
    return Conflict(f"Action {action.pk} was recorded before as {action.kind} of other rows; use a new id.")
