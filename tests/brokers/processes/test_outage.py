"""A broker that is down for half a minute with ten thousand tasks queued: all of them run when it is back."""

import logging
import time

import pytest

from ledgence.models import DeliveryIntent, Lease
from ledgence_project.elasticmq import ElasticMQ
from tests.brokers.processes.delivery import Delivery
from tests.faults.site import Site
from tests.faults.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(600)]

logger = logging.getLogger(__name__)

TASKS = 10_000
DOWN_SECONDS = 30.0
#: Far above what it takes on two cores that do nothing else.
DRAIN_SECONDS = 400.0


@pytest.fixture(scope="module")
def shared_delivery(shared_site: Site, elasticmq: ElasticMQ) -> Delivery:
    """Straight to the broker: a proxy would cost more than what it passes on to."""
    return Delivery(shared_site, elasticmq)


def is_anything_left() -> bool:
    return DeliveryIntent.objects.exists() or Lease.objects.exists()


def test_ten_thousand_tasks_outlast_an_outage(shared_delivery: Delivery) -> None:
    delivery = shared_delivery
    delivery.publisher()
    delivery.worker(concurrency=4)
    delivery.wait_until_succeeded(delivery.submit(4))
    tasks = delivery.submit(TASKS)
    wait_until(lambda: DeliveryIntent.objects.count() < TASKS, "the first to be claimed")
    delivery.broker.kill()
    down_at = time.monotonic()
    wait_until(lambda: time.monotonic() >= down_at + DOWN_SECONDS, "half a minute to be over")
    announced = set(DeliveryIntent.objects.exclude(confirmed_at=None).values_list("pk", flat=True))
    assert len(announced) < TASKS / 2
    delivery.broker.start()
    delivery.make_queues()
    back_at = time.monotonic()
    # What was announced to the broker that died comes back by itself a minute later; the rest need not wait for that.
    delivery.end_repair_times([task for task in tasks if task.id in announced])
    wait_until(lambda: not is_anything_left(), "everything to end", seconds=DRAIN_SECONDS)
    seconds = time.monotonic() - back_at
    logger.warning("outage over tasks=%s lost=%s seconds=%.1f", TASKS, len(announced), seconds)
    delivery.wait_until_succeeded(tasks)
    assert delivery.problems() == []
