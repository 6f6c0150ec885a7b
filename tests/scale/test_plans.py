"""What statements cost does not grow with history or with work for later: each is planned and run on a full ledger.

Twice with the project's own connections, whose statements are planned for their parameters, and twice with a worker's,
whose statements are planned once, here while the tables were empty; with statistics that know nothing, and with true
ones.
"""

from collections.abc import Iterator

import pytest

from tests.ledger.actors import Worker, execute
from tests.scale.connecting import WorkerConnection
from tests.scale.explaining import GROWING, Explained, explained, rehearse
from tests.scale.filling import fill
from tests.scale.tour import tour

pytestmark = [pytest.mark.scale, pytest.mark.slow, pytest.mark.timeout(900)]

CASES = [(kind, statistics) for kind in ("caller", "worker") for statistics in ("stale", "true")]

#: Every statement of the tour that reads or writes a growing table, and the indexes that it may use.
INDEXES = {
    "authorize_attempts": {"ledgence_lease_pkey", "ledgence_attempt_number", "ledgence_task_pkey"},
    "cancel_intents": {"ledgence_deliveryintent_pkey", "ledgence_task_pkey"},
    "end_attempts": {"ledgence_lease_pkey", "ledgence_attempt_number", "ledgence_task_pkey"},
    "explain_dispatches": {
        "ledgence_task_pkey",
        "ledgence_lease_pkey",
        "ledgence_attempt_number",
        "ledgence_deliveryintent_pkey",
    },
    "fill_action": {"ledgence_task_pkey", "ledgence_deliveryintent_pkey", "ledgence_lease_pkey"},
    "find_assignments": {"ledgence_attempt_number", "ledgence_task_pkey", "ledgence_lease_pkey"},
    "find_due": {"ledgence_intent_due"},
    "find_due_from": {"ledgence_intent_due"},
    "find_keys": {"ledgence_task_key"},
    "find_live_leases": {"ledgence_lease_pkey"},
    "hasten_intents": {"ledgence_deliveryintent_pkey"},
    "is_drained": {"ledgence_intent_due"},
    "lock_dispatches": {"ledgence_deliveryintent_pkey"},
    "lock_expired_leases": {"ledgence_lease_expiry"},
    "lock_intents": {"ledgence_deliveryintent_pkey"},
    "lock_leases": {"ledgence_lease_pkey"},
    "lock_leases_of_tasks": {"ledgence_lease_pkey"},
    "lock_tasks": {"ledgence_task_pkey"},
    "move_intents": {"ledgence_deliveryintent_pkey", "ledgence_task_pkey"},
    "next_expiry": {"ledgence_lease_expiry"},
    "record_late_settlements": {"ledgence_attempt_number", "ledgence_attempt_pkey"},
    "renew_leases": {"ledgence_lease_pkey"},
    "republish_intents": {"ledgence_deliveryintent_pkey"},
    "request_cancel": {"ledgence_lease_pkey", "ledgence_task_pkey"},
    "requeue_tasks": {"ledgence_task_pkey", "ledgence_attempt_number"},
    "set_priority": {"ledgence_deliveryintent_pkey", "ledgence_task_pkey"},
    "submit_tasks": set(),
    "take_intents": {"ledgence_deliveryintent_pkey", "ledgence_task_pkey", "ledgence_attempt_number"},
}

#: A batch of up to 128 tasks; the smallest index of so many entries has more than 1,600 pages.
BLOCKS_MAX = 1_300
REMOVED_MAX = 100
# Leases are as few as the slots of all workers, and a drained worker asks rarely.
SCANS = {"is_drained": {"ledgence_lease"}}


@pytest.fixture(scope="module")
def plans(own_database: None) -> Iterator[dict[tuple[str, str], list[Explained]]]:
    """The plans of a tour in each case."""
    found = {}
    with explained() as rehearsal:
        tour(Worker())
    execute(f"truncate {', '.join(GROWING)}, ledgence_operatoraction cascade")
    # True now, and wrong from then on.
    execute("analyze")
    with WorkerConnection() as connection:
        with connection.used():
            rehearse(rehearsal)
            worker = Worker()
        fill(worker)
        caller = Worker()
        for statistics in ("stale", "true"):
            if statistics == "true":
                execute("analyze")
            with explained() as found["caller", statistics]:
                tour(caller)
            with connection.used(), explained() as found["worker", statistics]:
                tour(worker)
    yield found


@pytest.mark.parametrize("case", CASES, ids=" ".join)
@pytest.mark.parametrize("statement", INDEXES)
def test_no_statement_reads_what_it_does_not_need(statement: str, case: tuple[str, str], plans) -> None:
    own = [plan for plan in plans[case] if plan.statement == statement]
    assert own, "the tour did not send it"
    for plan in own:
        assert plan.scanned <= SCANS.get(statement, set()), str(plan)
        assert plan.indexes <= INDEXES[statement], str(plan)
        assert plan.blocks <= BLOCKS_MAX, str(plan)
        assert plan.removed <= REMOVED_MAX, str(plan)


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_the_tour_sends_nothing_else_to_growing_tables(case: tuple[str, str], plans) -> None:
    others = {plan.statement for plan in plans[case] if plan.indexes or plan.scanned} - INDEXES.keys()
    assert others == set()


def test_no_statement_of_an_acquisition_is_planned_each_time(plans) -> None:
    batched = {plan.statement for plan in plans["worker", "true"] if plan.is_batched}
    assert batched >= {"lock_channel", "lock_leases", "end_attempts", "find_due", "find_due_from", "take_intents"}
    assert not any(plan.is_batched for plan in plans["caller", "true"])


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_an_idle_search_reads_a_few_pages_for_each_priority_of_later_work(case: tuple[str, str], plans) -> None:
    idle = [plan for plan in plans[case] if plan.statement == "find_due"][-1]
    assert idle.plan["Actual Rows"] == 0
    # The 201 priorities, of which some lie at the border of two pages, and the 20 pages or so of session and queue.
    assert idle.blocks < 201 * 6 + 50, str(idle)
