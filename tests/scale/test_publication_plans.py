"""What publication costs does not grow with work that is integrated, for later, or confirmed and not claimed yet.

As test_plans: with the project's own connections and with a publisher's, whose statements are planned once, here while
the tables were empty; with statistics that know nothing, and with true ones.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from ledgence.operations.operate import republish
from ledgence.operations.publish import RoutedQueue, SendResult
from ledgence.operations.queues import pause, resume
from ledgence.operations.routes import give_back
from tests.ledger.actors import USING, Worker, execute, operator, submit_task, submit_tasks
from tests.ledger.publishers import CONFIRMED, FAILED, REFUSED, PublisherActor, make_publications_due, route
from tests.ledger.rivals import Rival
from tests.scale.connecting import WorkerConnection
from tests.scale.explaining import GROWING, Explained, explained, rehearse
from tests.scale.filling import MANY, fill, fill_published

pytestmark = [pytest.mark.scale, pytest.mark.slow, pytest.mark.timeout(900)]

LEASE = 100
CASES = [(kind, statistics) for kind in ("caller", "publisher") for statistics in ("stale", "true")]
INDEXES = {
    "lease_publications": {"ledgence_intent_publish", "ledgence_deliveryintent_pkey"},
    "record_publications": {"ledgence_deliveryintent_pkey"},
    "next_publication": {"ledgence_intent_publish"},
    "defer_intents": {"ledgence_deliveryintent_pkey"},
    "lock_dispatches": {"ledgence_deliveryintent_pkey"},
    "republish_intents": {"ledgence_deliveryintent_pkey"},
}
#: A hundred rows, each moved in three indexes; the index of so many publications has more than 3,000 pages.
BLOCKS_MAX = 2_900
REMOVED_MAX = 100


def publish_some(queue: RoutedQueue) -> None:
    """Take work of a queue through all that publication does, with each result."""
    publisher, worker = PublisherActor(queue), Worker()
    tasks = submit_tasks(3 * LEASE, queue=queue.name.queue)
    leased = publisher.lease(LEASE)
    assert len(leased) == LEASE
    statuses = [CONFIRMED, REFUSED, FAILED, None]
    results = [SendResult(leased=one, status=statuses[place % 4]) for place, one in enumerate(leased)]
    # Not all are due at once: what is left of the submitted ones is full.
    assert len(publisher.publications.turn(results, LEASE).leased) == LEASE
    make_publications_due(*tasks)
    # Repairs, and what was leased and not recorded.
    assert len(PublisherActor(queue).lease(LEASE)) == LEASE
    publisher.publications.seconds_to_next(1.0)
    later = submit_tasks(8, queue=queue.name.queue, run_after=datetime.now(UTC) + timedelta(hours=1))
    worker.claim(*((task, 1) for task in later))
    republish(later, operator(), using=USING)
    pause([queue.id], operator(), using=USING)
    assert publisher.lease(LEASE) == []
    resume([queue.id], operator(), using=USING)
    # Nothing of it is left for the next tour's leases.
    execute("delete from ledgence_deliveryintent where task_id = any(%s::uuid[])", [[*tasks, *later]])


@pytest.fixture(scope="module")
def plans(own_database: None) -> Iterator[dict[tuple[str, str], list[Explained]]]:
    found = {}
    queue = route("external")
    with explained() as rehearsal:
        publish_some(queue)
    execute(f"truncate {', '.join(GROWING)} cascade")
    # True now, and wrong from then on.
    execute("analyze")
    with WorkerConnection() as connection:
        with connection.used():
            rehearse(rehearsal)
        fill(Worker(), finished=0, leases=0)
        later = datetime.now(UTC) + timedelta(hours=1)
        fill_published(like=submit_task(queue="external", run_after=later), count=MANY)
        for statistics in ("stale", "true"):
            if statistics == "true":
                execute("analyze")
            with explained() as found["caller", statistics]:
                publish_some(queue)
            with connection.used(), explained() as found["publisher", statistics]:
                publish_some(queue)
    yield found


@pytest.mark.parametrize("case", CASES, ids=" ".join)
@pytest.mark.parametrize("statement", INDEXES)
def test_no_statement_reads_what_it_does_not_need(statement: str, case: tuple[str, str], plans) -> None:
    own = [plan for plan in plans[case] if plan.statement == statement]
    assert own, "the tour did not send it"
    for plan in own:
        assert plan.scanned == set(), str(plan)
        assert plan.indexes <= INDEXES[statement], str(plan)
        assert plan.blocks <= BLOCKS_MAX, str(plan)
        assert plan.removed <= REMOVED_MAX, str(plan)


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_a_look_at_nothing_reads_a_few_pages(case: tuple[str, str], plans) -> None:
    idle = [plan for plan in plans[case] if plan.statement == "lease_publications"][-1]
    assert idle.blocks < 20, str(idle)
    [told] = [plan for plan in plans[case] if plan.statement == "next_publication"]
    # Those of the tour whose leases have just ended are dead.
    assert told.blocks < 100, str(told)


def test_a_turn_is_sent_together_and_not_planned_each_time(plans) -> None:
    batched = {plan.statement for plan in plans["publisher", "true"] if plan.is_batched}
    assert {"lease_publications", "record_publications"} <= batched
    assert not any(plan.is_batched for plan in plans["caller", "true"])


def test_an_old_snapshot_costs_one_search_a_second(own_database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was published and claimed leaves dead rows at the head, which an open snapshot keeps."""
    moment = [0.0]
    monkeypatch.setattr("ledgence.operations.publish.time.monotonic", lambda: moment[0])
    queue = route("snapshot", "snapshot")
    dead = 50_000
    with WorkerConnection() as connection, connection.used(), Rival() as reader:
        publisher = PublisherActor(queue)
        fill_published(like=submit_task(queue="snapshot"), count=dead)
        execute(
            "update ledgence_deliveryintent set next_publish_at = clock_timestamp() - interval '1 min' "
            "where queue_id = %s",
            [queue.id],
        )
        with reader.transaction():
            reader.execute("set transaction isolation level repeatable read")
            reader.execute("select count(*) from ledgence_queue")
            execute("delete from ledgence_deliveryintent where queue_id = %s", [queue.id])
            execute("vacuum ledgence_deliveryintent")
            walked = look(publisher)
            assert walked.blocks > 1_000, f"the dead rows were not in the way: {walked}"
            submit_tasks(10, queue="snapshot")
            moment[0] += 0.9
            marked = look(publisher)
            assert marked.plan["Actual Rows"] == 10
            # Ten rows, each moved in three indexes.
            assert marked.blocks < 400, str(marked)
    give_back(queue.id, operator(), using=USING)


def look(publisher: PublisherActor) -> Explained:
    with explained() as plans:
        publisher.lease(LEASE)
    [plan] = [plan for plan in plans if plan.statement == "lease_publications"]
    return plan
