"""Several publishers and workers over a broker in memory while everything fails by chance: each attempt runs once."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext

import pytest

from ledgence.housekeeping import Housekeeping
from ledgence.models import Attempt, DeliveryEvent, DeliveryIntent, Task
from ledgence.operations.publish import RoutedQueue
from ledgence.operations.queues import pause, resume
from ledgence.service import DatabaseTaskService
from ledgence.testing.delivery import Call, Faults, MemoryBroker
from ledgence_worker import worker
from ledgence_worker.pool import Ended
from ledgence_worker.protocol import Assignment, Outcome
from ledgence_worker.stopping import ExitCode, Stopping
from ledgence_worker.worker import Worker
from tests.faults.waiting import wait_until
from tests.ledger.actors import CATALOGUE, USING, assert_audit_clean, execute, operator, submit_tasks
from tests.ledger.publishers import route
from tests.ledger.publishing.running import publishing
from tests.worker.fakes import FakePool, end_of, make_settings, succeed
from tests.worker.routed import SpyQueue, make_route

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.django_db(transaction=True)]

TASKS = 2000
PUBLISHERS = WORKERS = 3
FAULTS = Faults(duplicated=0.2, reordered=0.5, lost=0.1, failed=0.05, uncertain=0.1, receipt_failed=0.2)
#: How often something befalls everybody at once, and how long after each other.
BLOWS = 100
BLOW_SECONDS = 0.1
DEADLINE_SECONDS = 200.0


def crash_sometimes(assignment: Assignment) -> Ended:
    """End a third of all first attempts so that the task is tried again."""
    is_crash = assignment.number == 1 and assignment.task_id.int % 3 == 0
    return end_of(assignment, Outcome.CRASHED) if is_crash else succeed(assignment)


class WorkerThread(threading.Thread):
    """A worker until nothing is left to run."""

    def __init__(self, broker: MemoryBroker) -> None:
        super().__init__(daemon=True)
        self.pool = FakePool(4, crash_sometimes)
        self.pool.catalogue = CATALOGUE
        told = make_settings(queues=("default",), tenant="default", namespace="default", drain=True)
        routes = [make_route(SpyQueue(broker), queue="default")]
        self._worker = Worker(DatabaseTaskService(USING), self.pool, told, routes=routes)
        self.exit_code: int | None = None

    def run(self) -> None:
        self.exit_code = self._worker.run()


class Misfortune:
    """What befalls the broker, the publishers, and everybody's connections, drawn by a seed."""

    def __init__(self, broker: MemoryBroker, queue: RoutedQueue, seed: int) -> None:
        self.broker, self.queue = broker, queue
        self.luck = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.blows: dict[str, Callable[[], object]] = {
            "all is lost": broker.lose_all,
            "receipts expire": broker.end_visibility,
            "a reply is lost": lambda: broker.lose_next_reply(self.luck.choice(list(Call))),
            "the broker is down": lambda: setattr(broker, "is_down", True),
            "the broker throttles": lambda: setattr(broker, "is_throttled", True),
            "the queue is gone": lambda: setattr(broker, "is_missing", True),
            "receipts are refused": lambda: setattr(broker, "refuses_receipts", True),
            "old messages come again": self.send_again,
            "somebody else sends": lambda: broker.put("no reference", '{"v": 2}'),
            "leases of publishers end": end_publisher_leases,
            "repair times end": end_repair_times,
            "a connection breaks": self.break_connection,
            "the queue is paused": lambda: pause([queue.id], operator(), using=USING),
        }

    def strike(self) -> None:
        """Let one thing happen, until the next."""
        self.relent()
        name = self.luck.choice(list(self.blows))
        self.blows[name]()
        self.counts[name] += 1

    def relent(self) -> None:
        """Let everything be as it should, but for what is lost already."""
        for name in ("is_down", "is_throttled", "is_missing", "refuses_receipts"):
            setattr(self.broker, name, False)
        resume([self.queue.id], operator(), using=USING)

    def send_again(self) -> None:
        with self.broker.changed:
            bodies = [publication.body for publication in self.broker.sent]
        self.broker.put(*self.luck.sample(bodies, min(20, len(bodies))))

    def break_connection(self) -> None:
        """End a connection, whatever goes on in it."""
        query = (
            "select pid from pg_stat_activity where datname = current_database() and application_name ~ '^ledgence '"
        )
        found = sorted(pid for (pid,) in execute(query))
        if found:
            execute("select pg_terminate_backend(%s)", [self.luck.choice(found)])


def end_publisher_leases() -> None:
    """Let publishers be past their leases while they send: others take what they hold."""
    make_publications_due("publish_token is not null")


def end_repair_times() -> None:
    """Let the time be over within which what was announced is to be claimed."""
    make_publications_due("confirmed_at is not null")


def make_publications_due(which: str) -> None:
    # Without waiting: workers and publishers lock them in their own orders.
    statement = f"""
    with free as (select task_id from ledgence_deliveryintent where {which} for no key update skip locked)
    update ledgence_deliveryintent i set next_publish_at = clock_timestamp() from free where i.task_id = free.task_id
    """  # noqa: S608 - the two above
    execute(statement)


@pytest.fixture
def housekeeping() -> Iterator[None]:
    made = Housekeeping(USING)
    made.start()
    yield
    made.close()


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Stopping]]:
    """What stops workers on threads, which take no signals."""
    made: list[Stopping] = []

    def take(stopping: Stopping) -> AbstractContextManager[None]:
        made.append(stopping)
        return nullcontext()

    monkeypatch.setattr(worker, "stop_signals", take)
    yield made
    for stopping in made:
        stopping.request("the test is over", grace_seconds=0)


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_and_nothing_runs_twice(seed: int, settings, housekeeping: None, stops: list[Stopping]) -> None:
    settings.LEDGENCE = {"LEASE_SECONDS": 4, "BACKOFF_INITIAL_SECONDS": 0, "MAX_ATTEMPTS": 20}
    broker = MemoryBroker(address="there", seed=seed, faults=FAULTS, visibility_seconds=1.0)
    queue = route()
    tasks = submit_tasks(TASKS)
    misfortune = Misfortune(broker, queue, seed)
    workers = [WorkerThread(broker) for _ in range(WORKERS)]
    with ExitStack() as stack:
        for _ in range(PUBLISHERS):
            stack.enter_context(publishing(queue, broker.publisher()))
        for one in workers:
            one.start()
        between = threading.Event()
        for _ in range(BLOWS):
            misfortune.strike()
            between.wait(BLOW_SECONDS)
        misfortune.relent()
        broker.faults = Faults()
        wait_until(lambda: ends_soon(workers), "every worker to have nothing left to run", seconds=DEADLINE_SECONDS)
    assert len(misfortune.counts) == len(misfortune.blows)
    assert [one.exit_code for one in workers] == [ExitCode.CLEAN] * WORKERS
    assert_all_ran_once(workers, len(tasks))


def ends_soon(workers: list[WorkerThread]) -> bool:
    """Let what was lost be announced again now and then, and tell whether all workers have ended."""
    end_repair_times()
    for one in workers:
        one.join(0.2)
    return not any(one.is_alive() for one in workers)


def assert_all_ran_once(workers: list[WorkerThread], count: int) -> None:
    started = Counter(key for one in workers for key in one.pool.started)
    assert set(started.values()) == {1}
    assert set(Task.objects.values_list("outcome", flat=True)) == {"succeeded"}
    ends = Counter(Attempt.objects.values_list("outcome", flat=True))
    assert ends["succeeded"] == count
    assert ends["crashed"] > count / 4
    assert not DeliveryIntent.objects.exists()
    kinds = Counter(DeliveryEvent.objects.values_list("kind", flat=True))
    assert {"uncertain", "failed", "repair"} <= kinds.keys(), kinds
    assert_audit_clean()
