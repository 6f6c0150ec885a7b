"""What an explanation costs does not grow with history, with work for later, or with workers of the past."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest

from ledgence.explanation import explain
from ledgence.models import Queue
from ledgence.operations.routes import QueueName, activate
from ledgence.status import find_open_sessions
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import USING, Worker, execute, operator, submit_task, submit_tasks
from tests.scale.explaining import Explained, explained
from tests.scale.filling import LEASES, MANY, fill, fill_due

pytestmark = [pytest.mark.scale, pytest.mark.slow, pytest.mark.timeout(900)]

STATISTICS = ("stale", "true")
NAMES = ("retried", "active", "failed", "waiting", "untaken", "external")

#: Which indexes of growing tables each statement may use.
INDEXES = {
    "explain_task": {
        "ledgence_task_pkey",
        "ledgence_deliveryintent_pkey",
        "ledgence_lease_pkey",
        "ledgence_attempt_number",
    },
    "count_ahead": {"ledgence_intent_due"},
    "find_open_sessions": set(),
    "find_housekeeping": set(),
    "find_old_snapshots": set(),
}
#: Leases are as few as the slots of all workers.
SCANS = {"find_open_sessions": {"ledgence_lease"}}
#: A thousand index entries and their pages; the leases.
BLOCKS_MAX = 1_500
#: Closed sessions, of years; events of other tasks.
PAST = 200_000

SESSIONS = """
insert into ledgence_workersession (id, tenant, namespace, name, host, pid, version, concurrency, queues,
                                    exclude_queues, programs, opened_at, expires_at, closed_at)
select gen_random_uuid(), tenant, namespace, name, host, pid, version, concurrency, queues, exclude_queues, programs,
       now() - interval '1 y', now() - n * interval '1 min', case when n %% 2 = 0 then now() - n * interval '1 min' end
from ledgence_workersession, generate_series(1, %(count)s) n where id = %(session)s
"""

EVENTS = """
insert into ledgence_deliveryevent (task_id, generation, kind, epoch, happened_at)
select %(task)s, 1, 'repair', n, now() - interval '1 d' - n * interval '1 s' from generate_series(1, %(count)s) n
"""


class Cast:
    """One task for each way through the facts, with the workers that make it so."""

    def __init__(self) -> None:
        worker = Worker(queues=("default",))
        self.retried = submit_task(priority=5)
        worker.settle(worker.acquire_one(), Outcome.CRASHED)
        self.active = submit_task(priority=5)
        worker.acquire_one()
        self.failed = submit_task(priority=5, max_attempts=1)
        worker.settle(worker.acquire_one(), Outcome.FAILED)
        submit_tasks(7, priority=5)
        worker.acquire(7)
        # Behind more than the cap, of higher and of the same priority.
        fill_due(like=submit_task(), count=5_000)
        fill_due(like=submit_task(priority=1), count=600)
        self.waiting = submit_task()
        self.untaken = submit_task(queue="idle")
        Worker(queues=("idle",))
        execute(
            "update ledgence_deliveryintent set available_at = now() - interval '1 min' where task_id = %s",
            [self.untaken],
        )
        activate({QueueName(tenant="default", namespace="default", queue="mail"): "arn:mail"}, operator(), using=USING)
        self.external = submit_task(queue="mail")
        Worker(queues=("mail",))
        execute(
            "insert into ledgence_publisher (id, queue_id, host, pid, version, started_at, turned_at) "
            "values (gen_random_uuid(), %s, 'p', 1, '0', now(), now())",
            [Queue.objects.get(name="mail").pk],
        )
        self.worker = worker

    def tasks(self) -> dict[str, UUID]:
        return {name: getattr(self, name) for name in NAMES}


@contextmanager
def counted(plans: dict[str, list[Explained]], name: str) -> Iterator[None]:
    with explained() as plans[name]:
        yield


@pytest.fixture(scope="module")
def plans(own_database: None) -> Iterator[dict[str, dict[str, list[Explained]]]]:
    """The plans of each explanation, with statistics that know nothing and with true ones."""
    filler = Worker(queues=("filler",))
    execute("analyze")
    fill(filler, finished=MANY, future=MANY, leases=LEASES)
    execute(SESSIONS, {"count": PAST, "session": filler.session_id})
    cast = Cast()
    other = submit_task(queue="mail")
    execute(EVENTS, {"task": other, "count": PAST})
    execute(EVENTS, {"task": cast.external, "count": 500})
    # These grow by a few rows a day: the server's statistics keep up.
    execute("analyze ledgence_workersession, ledgence_deliveryevent")
    found: dict[str, dict[str, list[Explained]]] = {}
    for statistics in STATISTICS:
        if statistics == "true":
            execute("analyze")
        found[statistics] = {}
        for name, task in cast.tasks().items():
            with counted(found[statistics], name):
                assert explain(task, using=USING).lines
        with counted(found[statistics], "sessions"):
            assert len(find_open_sessions(using=USING)) == 4
    yield found


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("name", [*NAMES, "sessions"])
def test_an_explanation_reads_a_few_pages(name: str, statistics: str, plans) -> None:
    assert plans[statistics][name]
    for plan in plans[statistics][name]:
        assert plan.scanned <= SCANS.get(plan.statement, set()), str(plan)
        assert plan.indexes <= INDEXES[plan.statement], str(plan)
        assert plan.blocks <= BLOCKS_MAX, str(plan)
        past = {node.get("Relation Name") for node in plan.nodes() if node["Node Type"] == "Seq Scan"}
        assert not past & {"ledgence_workersession", "ledgence_deliveryevent"}, str(plan)


@pytest.mark.parametrize("statistics", STATISTICS)
def test_the_cast_reaches_every_statement(statistics: str, plans) -> None:
    sent = {plan.statement for own in plans[statistics].values() for plan in own}
    assert sent == INDEXES.keys()
