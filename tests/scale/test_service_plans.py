"""What the task service's own statements cost does not grow with history, with work for later, or with who waits."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from ledgence import sql
from ledgence.http.limits import PAGE_MAX, WINDOW
from ledgence.http.tasks import HIGHEST
from tests.ledger.actors import USING, Worker, execute, submit_task, submit_tasks
from tests.scale.connecting import WorkerConnection
from tests.scale.explaining import GROWING, Explained, explained
from tests.scale.filling import fill

pytestmark = [pytest.mark.scale, pytest.mark.slow, pytest.mark.timeout(900)]

SESSIONS = 200
STATISTICS = ("stale", "true")

NARROW = {"queues": None, "program": None, "state": None, "idempotency_key": None, "correlation_key": None}
#: Filters of a list, and the source that holds the fewest tasks that may match.
LISTS: dict[str, dict[str, Any]] = {
    "every task": {"source": "task"},
    "none matches": {"source": "task", "program": "nobody's"},
    "queued": {"source": "queued", "state": "queued"},
    "active": {"source": "active", "state": "active"},
    "key": {"source": "key", "idempotency_key": "one"},
    "correlation": {"source": "correlation", "correlation_key": "few"},
}
#: A page of the newest tasks reads the ids of its window, and four rows or so for each task that it shows.
PAGE_BLOCKS = 3_000
#: One that finds nothing reads as much for each id of its window.
WINDOW_BLOCKS = 20 * WINDOW


def ask(name: str) -> dict[str, Any]:
    common = {"cursor": HIGHEST, "window": WINDOW, "limit": PAGE_MAX, "tenant": "default", "namespace": "default"}
    return {**NARROW, **common, **LISTS[name]}


@pytest.fixture(scope="module")
def plans(own_database: None) -> Iterator[dict[tuple[str, str], Explained]]:
    """The plan of each statement, on a worker's connection, with statistics that know nothing and with true ones."""
    execute("analyze")
    found: dict[tuple[str, str], Explained] = {}
    with WorkerConnection() as connection, connection.used():
        workers = [Worker() for _ in range(SESSIONS)]
        for worker in workers:
            worker.acquire()
        fill(workers[0])
        submit_task(idempotency_key="one")
        submit_tasks(5, correlation_key="few")
        for statistics in STATISTICS:
            if statistics == "true":
                execute("analyze")
            found |= {(name, statistics): plan for name, plan in explain_all(workers).items()}
    yield found


def explain_all(workers: list[Worker]) -> dict[str, Explained]:
    sessions = [worker.session_id for worker in workers]
    found = {name: explain("list_tasks", ask(name)) for name in LISTS}
    found["one due"] = explain("find_sessions_to_wake", {"sessions": sessions})
    execute("update ledgence_deliveryintent set available_at = now() + interval '1 d' where available_at < now()")
    found["idle"] = explain("find_sessions_to_wake", {"sessions": sessions})
    empty = {"sessions": sessions, "channels": [0] * SESSIONS, "sequences": [2] * SESSIONS}
    found["record"] = explain("record_empty_answers", empty)
    ids = [row[0] for row in execute("select id from ledgence_task limit 500")]
    found["ended"] = explain("find_ended_tasks", {"tasks": [*ids, *(uuid4() for _ in range(500))]})
    found["record turn"] = explain("record_housekeeping", {"rest_seconds": 0.0})
    found["turn"] = explain("find_housekeeping", None)
    return found


def explain(name: str, parameters: dict[str, Any] | None) -> Explained:
    with explained() as plans:
        sql.run(name, USING, parameters)
    [plan] = plans
    return plan


CHEAP = {
    # 201 priorities of one queue, and a row of each session.
    "idle": 201 * 5 + SESSIONS * 6,
    "one due": 201 * 5 + SESSIONS * 6,
    "record": SESSIONS * 40,
    "ended": 1000 * 5,
    "record turn": 20,
    "turn": 10,
    "key": 50,
    "correlation": 200,
    # Of what no vacuum has seen, ids are looked for in the table.
    "every task": PAGE_BLOCKS + WINDOW,
    # Whether it is more than a window is found out first.
    "queued": PAGE_BLOCKS + WINDOW,
    "active": PAGE_BLOCKS,
    "none matches": WINDOW_BLOCKS,
}


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("name", CHEAP)
def test_a_statement_reads_what_it_needs(name: str, statistics: str, plans: dict[tuple[str, str], Explained]) -> None:
    plan = plans[name, statistics]
    assert plan.scanned == set(), str(plan)
    assert plan.blocks <= CHEAP[name], str(plan)


@pytest.mark.parametrize("statistics", STATISTICS)
def test_sessions_alike_are_probed_as_one(statistics: str, plans: dict[tuple[str, str], Explained]) -> None:
    idle = plans["idle", statistics]
    levels = [n for n in idle.nodes() if n.get("Index Name") == "ledgence_intent_due"]
    assert sum(n["Actual Loops"] for n in levels) <= 2 * 201 + 10, str(idle)
    assert {n["Relation Name"] for n in levels if "Relation Name" in n} <= GROWING
