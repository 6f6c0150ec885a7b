"""Publishers that are killed, frozen or lose a reply at each point of a batch: another goes on, and all runs once."""

import signal

import pytest

from ledgence.handle import TaskHandle
from ledgence_worker.stopping import ExitCode
from tests.brokers.faults import proxy as faults
from tests.brokers.faults.proxy import Hold
from tests.brokers.processes.delivery import Delivery
from tests.faults.commit_proxy import CommitProxy, Loss
from tests.faults.waiting import wait_until
from tests.faults.worker_process import WorkerProcess

pytestmark = [pytest.mark.broker, pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(300)]

SEND = "SendMessageBatch"
SLOTS = 2


@pytest.fixture(scope="module", autouse=True)
def worker(shared_delivery: Delivery) -> WorkerProcess:
    return shared_delivery.worker(concurrency=SLOTS)


def test_killed_before_it_sends(delivery: Delivery) -> None:
    victim = delivery.publisher()
    hold = Hold(before=True)
    delivery.proxy.spoil(SEND, hold)
    tasks = delivery.submit(5)
    wait_until(lambda: hold.held, "the batch to be sent")
    victim.kill()
    publications = delivery.publications(tasks)
    delivery.end_publisher_leases()
    delivery.publisher()
    delivery.wait_until_succeeded(tasks)
    # The same publications, which nobody knows whether they were sent.
    assert delivery.events(tasks) == ["uncertain"] * 5
    assert dict(delivery.claimed(tasks).values_list("task_id", "publication_id")) == publications
    assert set(delivery.claimed(tasks).values_list("publications", flat=True)) == {2}


def test_killed_after_it_has_sent(delivery: Delivery) -> None:
    victim = delivery.publisher()
    with delivery.occupied(SLOTS):
        hold = Hold(before=False)
        delivery.proxy.spoil(SEND, hold)
        tasks = delivery.submit(5)
        wait_until(lambda: hold.held, "the batch to be sent")
        victim.kill()
        assert delivery.depth() == 5
        delivery.end_publisher_leases()
        delivery.publisher()
        delivery.wait_until_confirmed(tasks)
        assert delivery.depth() == 10
    delivery.wait_until_succeeded(tasks)
    assert delivery.events(tasks) == ["uncertain"] * 5


def test_killed_after_it_has_sent_work_that_is_claimed(delivery: Delivery) -> None:
    victim = delivery.publisher()
    hold = Hold(before=False)
    delivery.proxy.spoil(SEND, hold)
    tasks = delivery.submit(5)
    wait_until(lambda: hold.held, "the batch to be sent")
    victim.kill()
    delivery.wait_until_succeeded(tasks)
    delivery.publisher()
    assert delivery.events(tasks) == []


def test_killed_after_it_has_recorded_half_of_a_batch(delivery: Delivery) -> None:
    victim = delivery.publisher()
    with delivery.occupied(SLOTS):
        # One lease, ten calls: five are answered, and what becomes of the others is never told.
        delivery.proxy.spoil(SEND, *[None] * 5, *[Hold(before=False)] * 5)
        tasks = delivery.submit(100)
        intents = delivery.intents(tasks)
        wait_until(lambda: intents.exclude(confirmed_at=None).count() == 50, "half of the batch to be recorded")
        victim.kill()
        assert intents.exclude(publish_token=None).count() == 50
        delivery.end_publisher_leases()
        delivery.proxy.calm()
        delivery.publisher()
        delivery.wait_until_confirmed(tasks)
        assert delivery.events(tasks) == ["uncertain"] * 50
    delivery.wait_until_succeeded(tasks)


def test_frozen_for_longer_than_its_lease_it_records_nothing_more(delivery: Delivery) -> None:
    stale = delivery.publisher()
    with delivery.occupied(SLOTS):
        hold = Hold(before=False)
        delivery.proxy.spoil(SEND, hold)
        tasks = delivery.submit(10)
        wait_until(lambda: hold.held, "the batch to be sent")
        stale.send(signal.SIGSTOP)
        delivery.end_publisher_leases()
        other = delivery.publisher()
        delivery.wait_until_confirmed(tasks)
        other.stop()
        before = _told(delivery, tasks)
        hold.let_go()
        stale.send(signal.SIGCONT)
        # It records in order: when it has published this, it has tried to record what it was frozen over.
        delivery.wait_until_confirmed(delivery.submit(1))
        assert _told(delivery, tasks) == before
    delivery.wait_until_succeeded(tasks)
    assert delivery.events(tasks) == ["uncertain"] * 10


def test_batches_whose_answers_are_spoilt_are_sent_again(delivery: Delivery) -> None:
    delivery.publisher()
    spoilt = [faults.lost, faults.cut, faults.truncated, faults.broken_after, faults.reset, faults.throttled]
    for fault in (*spoilt, faults.omitting(0)):
        # An answer in between ends the outage, so that the next call is not long in coming.
        delivery.proxy.spoil(SEND, fault, None)
    tasks = delivery.submit(100)
    delivery.wait_until_succeeded(tasks)
    assert delivery.proxy.planned(SEND) == 0
    assert set(delivery.events(tasks)) == {"uncertain", "failed"}


@pytest.mark.parametrize("loss", list(Loss), ids=lambda loss: loss.name.lower())
def test_a_lease_and_a_record_whose_commits_are_lost(
    delivery: Delivery, commits: CommitProxy, through: str, loss: Loss
) -> None:
    publisher = delivery.publisher(DATABASE_URL=through)
    commits.lose(loss, "ledgence publisher")
    tasks = delivery.submit(5)
    wait_until(lambda: commits.losses == 1, "a commit to be lost")
    wait_until(lambda: _is_known(delivery, tasks), "the work to be published, or held by a lease that nobody knows of")
    delivery.end_publisher_leases()
    delivery.wait_until_succeeded(tasks)
    hold = Hold(before=False)
    with delivery.occupied(SLOTS):
        delivery.proxy.spoil(SEND, hold)
        tasks = delivery.submit(5)
        wait_until(lambda: hold.held, "the batch to be sent")
        commits.lose(loss, "ledgence publisher")
        hold.let_go()
        wait_until(lambda: commits.losses == 1, "a commit to be lost")
        delivery.wait_until_confirmed(tasks)
    delivery.wait_until_succeeded(tasks)
    # Before its way to the database is closed.
    assert publisher.stop() == ExitCode.CLEAN


def _is_known(delivery: Delivery, tasks: list[TaskHandle]) -> bool:
    return not delivery.intents(tasks).filter(publish_token=None, publications=0).exists()


def _told(delivery: Delivery, tasks: list[TaskHandle]) -> list[tuple[object, ...]]:
    """Return all that publishers write."""
    columns = ("pk", "epoch", "publication_id", "publications", "confirmed_at", "next_publish_at", "publish_token")
    return sorted(delivery.intents(tasks).values_list(*columns))
