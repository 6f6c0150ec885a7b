"""Operator actions: each is recorded with its answers in its own transaction, and replayed by its id."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ledgence import sql
from ledgence.models import OperatorAction, OperatorActionTarget
from ledgence.transitions import transition
from ledgence_worker.errors import Conflict, InvalidInput

# How many rows one action may name; more are acted on in several actions.
TARGETS_MAX = 1000
# How many characters of an operator's name are kept.
NAME_MAX = 255

type Kind = OperatorAction.Kind
#: The rows that an action names, each with the revision that the operator saw (None: it has none).
type Targets = Mapping[str, int | None]
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


def record(operator: Operator, kind: Kind, targets: Targets, decide: Callable[[], Answers], *, using: str) -> Answers:
    """Run ``decide`` once for an action's id, in one transaction with the record of who, why and what came of it.

    Raises InvalidInput (no reason, no or too many targets), Conflict (the id was used for something else), Busy.
    """
    _check_text("reason", operator.reason, f"{kind} {operator.action_id}")
    _check_text("name", operator.name, f"{kind} {operator.action_id}", limit=NAME_MAX)
    if not 0 < len(targets) <= TARGETS_MAX:
        raise InvalidInput(f"{kind} {operator.action_id}: {len(targets)} rows; an action takes 1 to {TARGETS_MAX}.")
    with transition(using, what=kind):
        if not _begin(operator, kind, using=using):
            return _replay(operator, kind, targets, using=using)
        answers = decide()
        OperatorActionTarget.objects.using(using).bulk_create(
            OperatorActionTarget(
                action_id=operator.action_id, target=target, expected_revision=revision, answer=answers[target]
            )
            for target, revision in targets.items()
        )
        return answers


def _check_text(field: str, text: str, what: str, *, limit: int | None = None) -> None:
    if not text.strip():
        raise InvalidInput(f"{what}: a {field} is required.")
    if "\0" in text or text.encode("utf-8", "replace").decode() != text:
        raise InvalidInput(f"{what}: the {field} holds a NUL or half of a surrogate pair, which no text may.")
    if limit is not None and len(text) > limit:
        raise InvalidInput(f"{what}: the {field} has {len(text)} characters; at most {limit} are kept.")


def _begin(operator: Operator, kind: Kind, *, using: str) -> bool:
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
            },
        )
    )


def _replay(operator: Operator, kind: Kind, targets: Targets, *, using: str) -> Answers:
    action = OperatorAction.objects.using(using).get(pk=operator.action_id)
    rows = list(action.targets.all())
    if action.kind != kind or {row.target: row.expected_revision for row in rows} != dict(targets):
        raise Conflict(f"Action {operator.action_id} was recorded before as {action.kind} of other rows; use a new id.")
    return {row.target: row.answer for row in rows}
