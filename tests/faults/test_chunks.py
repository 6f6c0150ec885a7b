"""An action on thousands of tasks outlives the processes that apply it: each task is acted on once, whoever dies."""

from collections import Counter
from uuid import UUID, uuid4

import pytest

from ledgence.models import Attempt, OperatorAction
from ledgence.operations.actions import Operator
from ledgence.operations.bulk import CHUNK, begin_bulk
from ledgence_project.embedded.environment import CHECKOUT
from tests.faults.site import Site
from tests.faults.worker_process import WorkerProcess
from tests.ledger.actors import USING, assert_audit_clean, execute, submit_tasks
from tests.ledger.rivals import Rival

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

MANAGE = str(CHECKOUT / "manage.py")
TASKS = 6 * CHUNK


def begin(tasks: list[UUID]) -> UUID:
    by = Operator(action_id=uuid4(), name="op", reason="they came twice")
    begin_bulk(OperatorAction.Kind.CANCEL, tasks, by, scope={"list": "task"}, using=USING)
    return by.action_id


def answered(action: UUID) -> int:
    """Return how many rows have their answer, which at every moment is what their action counts."""
    [(answers, changed)] = execute(
        "select (select count(*) from ledgence_operatoractiontarget t where t.action_id = o.id and t.answer <> ''), "
        "o.changed from ledgence_operatoraction o where o.id = %s",
        [action],
    )
    assert answers == changed
    return int(changed)


def test_processes_that_are_killed_on_the_way_leave_nothing_undone_and_nothing_twice(site: Site) -> None:
    tasks = submit_tasks(TASKS, queue="elsewhere")
    action = begin(tasks)

    def start(*command: str) -> WorkerProcess:
        return site.start([], site.environment(), (MANAGE, *command))

    by_hand = ("ledgence_bulk", str(action))
    with Rival() as rival:
        with rival.transaction():
            # So that no process can end it before the others were killed.
            held = sorted(tasks)[-1]
            rival.execute("select 1 from ledgence_deliveryintent where task_id = %s for update", [held])
            seen = 0
            for command in (by_hand, ("ledgence_recover",), by_hand):
                process = start(*command)
                while (now := answered(action)) in (seen, 0) and now < TASKS - 1:
                    assert process.is_running, process.output
                process.kill()
                seen = answered(action)
            assert OperatorAction.objects.get(pk=action).state == "running"
        last = [start(*by_hand), start(*by_hand)]
        assert [process.wait() for process in last] == [0, 0]
    done = OperatorAction.objects.get(pk=action)
    assert (done.state, done.matched, done.changed, done.skipped) == ("done", TASKS, TASKS, None)
    assert Counter(Attempt.objects.values_list("number", "outcome")) == {(1, "cancelled"): TASKS}
    assert f"state=done matched={TASKS} changed={TASKS} skipped=0" in last[0].output
    assert_audit_clean()
