"""One lock order, ids ascending: two commands that name the same rows in opposite orders never lock each other out."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from ledgence.operations.authorize import authorize
from ledgence.operations.cancel import cancel
from ledgence.operations.claim import claim
from ledgence.operations.operate import force_expire, requeue
from ledgence.operations.reschedule import set_priority
from ledgence.operations.settle import settle
from ledgence_worker.claims import Claim, Dispatch
from ledgence_worker.protocol import Assignment, Outcome
from tests.ledger.actors import (
    USING,
    Worker,
    assert_audit_clean,
    execute,
    operator,
    settlement_of,
    submit_tasks,
)
from tests.ledger.rivals import Rival

pytestmark = pytest.mark.django_db(transaction=True)


class Scene:
    """Two tasks that a worker holds, and the commands that name them."""

    def __init__(self, worker: Worker, *, held: bool, ended: bool) -> None:
        self.worker, self.other = worker, Worker()
        self.tasks = submit_tasks(2)
        self.assignments: list[Assignment] = worker.acquire(2) if held else []
        if ended:
            for assignment in self.assignments:
                worker.settle(assignment, Outcome.FAILED)

    def settle(self, order: Sequence[int]) -> Any:
        batch = [settlement_of(self.assignments[place]) for place in order]
        return settle(self.worker.session_id, batch, using=USING)

    def authorize(self, order: Sequence[int]) -> Any:
        owners = [self.assignments[place].owner for place in order]
        return authorize(self.worker.session_id, owners, using=USING)

    def cancel(self, order: Sequence[int]) -> Any:
        return cancel([self.tasks[place] for place in order], using=USING)

    def claim(self, order: Sequence[int]) -> Any:
        worker = (self.worker, self.other)[order[0]]
        named = tuple(Dispatch(task_id=self.tasks[place], generation=1) for place in order)
        return claim(Claim(session_id=worker.session_id, channel=7, sequence=1, dispatches=named), using=USING)

    def force_expire(self, order: Sequence[int]) -> Any:
        return force_expire({self.tasks[place]: 1 for place in order}, operator(), using=USING)

    def set_priority(self, order: Sequence[int]) -> Any:
        return set_priority({self.tasks[place]: 1 for place in order}, operator(), priority=order[0] + 1, using=USING)

    def requeue(self, order: Sequence[int]) -> Any:
        return requeue({self.tasks[place]: 1 for place in order}, operator(), using=USING)


@pytest.mark.parametrize(
    ("name", "table", "held", "ended"),
    [
        ("settle", "ledgence_lease", True, False),
        ("authorize", "ledgence_lease", True, False),
        ("force_expire", "ledgence_lease", True, False),
        ("cancel", "ledgence_lease", True, False),
        ("cancel", "ledgence_deliveryintent", False, False),
        ("claim", "ledgence_deliveryintent", False, False),
        ("requeue", "ledgence_task", True, True),
        ("set_priority", "ledgence_deliveryintent", False, False),
    ],
)
def test_opposite_orders_end_without_a_deadlock(settings, name, table, held, ended):
    """Both wait for the higher row: the first one then needs the lower one, which the second must not hold."""
    # A wait that ends in Busy would hide the deadlock.
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 10}
    scene = Scene(Worker(), held=held, ended=ended)
    command: Callable[[Sequence[int]], Any] = getattr(scene, name)
    higher = max(scene.tasks)
    with Rival() as first, Rival() as second:
        with transaction.atomic():
            lock_row(table, higher)
            backward = first.begin(lambda: command((1, 0)))
            first.wait_until_blocked(backward)
            forward = second.begin(lambda: command((0, 1)))
            second.wait_until_blocked(forward)
        # A deadlock is Busy for one of them.
        assert len(backward.result(20).answers if name == "claim" else backward.result(20)) == 2
        forward.result(20)
    assert_audit_clean()


def test_a_cancellation_that_waits_for_an_intent_holds_no_lease(settings):
    """Intents come before leases, whatever the order of the tasks: whoever has the intent may want the lease next."""
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 10}
    [queued] = submit_tasks(1, priority=-1)
    [active] = submit_tasks(1)
    Worker().acquire(1)
    with Rival() as rival:
        with transaction.atomic():
            lock_row("ledgence_deliveryintent", queued)
            cancelling = rival.begin(lambda: cancel([active, queued], using=USING))
            rival.wait_until_blocked(cancelling)
            execute("select 1 from ledgence_lease where task_id = %s for update nowait", [active])
        assert cancelling.result(20) == {queued: "cancelled", active: "requested"}
    assert_audit_clean()


def lock_row(table: str, task: UUID) -> None:
    column = "id" if table == "ledgence_task" else "task_id"
    execute(f"select 1 from {table} where {column} = %s for update", [task])  # noqa: S608 - the names above
