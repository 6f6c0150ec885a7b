"""How a command applies an action on thousands of rows by itself, beside housekeeping or in its place."""

import time
from uuid import UUID

from ledgence.models import OperatorAction
from ledgence.operations.bulk import Bulk
from ledgence_worker.errors import NotFound

#: How long to wait for rows that somebody's transaction holds, or that another process has taken.
PAUSE_SECONDS = 1.0


def apply(action_id: UUID, *, using: str) -> OperatorAction:
    """Apply an action chunk by chunk until it is done or stopped, and return it. Raises NotFound.

    It can be broken off: what was done stands, and housekeeping goes on.
    """
    bulk = Bulk(using)
    action = _find(action_id, using=using)
    while action.state == OperatorAction.State.RUNNING:
        if not bulk.turn(only=action_id):
            action = _find(action_id, using=using)
            if action.state == OperatorAction.State.RUNNING:
                time.sleep(PAUSE_SECONDS)
    return action


def _find(action_id: UUID, *, using: str) -> OperatorAction:
    action = OperatorAction.objects.using(using).filter(pk=action_id).first()
    if action is None:
        raise NotFound(f"There is no operator action {action_id}.")
    return action
