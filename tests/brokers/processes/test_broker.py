"""A broker that repeats, loses, forgets, is gone, or holds what nobody here sent: all runs once, and nothing loops."""

import json
import signal
import socket
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlsplit
from uuid import uuid4

import psutil
import pytest

from ledgence.handle import TaskHandle
from ledgence.models import QuarantinedMessage
from ledgence.operations.queues import pause, resume
from ledgence_worker.delivery.reference import REFERENCE_BYTES, VERSION, Reference, encode
from tests.brokers.faults import proxy as faults
from tests.brokers.faults.proxy import Exchange, Fault, Hold, passed
from tests.brokers.processes.conftest import both_ways
from tests.brokers.processes.delivery import Delivery
from tests.faults.site import QUEUE
from tests.faults.waiting import wait_until
from tests.faults.worker_process import WorkerProcess
from tests.ledger.actors import operator

pytestmark = [pytest.mark.broker, pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(300), both_ways]

SEND, RECEIVE, DELETE = "SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch"
WORKERS, CONCURRENCY = 3, 2
SLOTS = WORKERS * CONCURRENCY


@pytest.fixture(scope="module", autouse=True)
def workers(shared_delivery: Delivery, publisher: WorkerProcess) -> list[WorkerProcess]:
    started = [shared_delivery.start_worker(concurrency=CONCURRENCY) for _ in range(WORKERS)]
    for worker in started:
        worker.wait_until_started()
    return started


def test_a_message_is_delivered_five_times_to_three_workers_at_once(delivery: Delivery) -> None:
    receives = Hold(before=True)
    delivery.proxy.spoil(RECEIVE, *[receives] * WORKERS)
    delivery.proxy.spoil(SEND, faults.times(5))
    wait_until(lambda: len(receives.held) == WORKERS, "every worker to ask")
    tasks = delivery.submit(1)
    wait_until(lambda: delivery.depth() == 5, "five messages of one task")
    receives.let_go()
    delivery.wait_until_succeeded(tasks)
    assert sum(len(reply.document.get("Messages", [])) for reply in receives.replies) == 5
    assert all(reply.document["Messages"] for reply in receives.replies)


def test_every_message_is_delivered_five_times(delivery: Delivery) -> None:
    delivery.proxy.always[SEND] = faults.times(5)
    tasks = delivery.submit(60)
    delivery.wait_until_succeeded(tasks)


def test_acknowledgements_fail_for_ever(delivery: Delivery) -> None:
    receipts: set[str] = set()
    delivery.proxy.always[DELETE] = noting(receipts, faults.broken)
    tasks = delivery.submit(10)
    delivery.wait_until_succeeded(tasks)
    # Each message comes again under another receipt, is claimed in vain, and comes again.
    wait_until(lambda: len(receipts) >= 30, "each message to be delivered three times")
    assert delivery.depth() == 10
    delivery.wait_until_succeeded(tasks)


def noting(receipts: set[str], fault: Fault = passed) -> Fault:
    """Do the same, and remember whose acknowledgement was asked for."""

    def noted(exchange: Exchange) -> None:
        receipts.update(entry["ReceiptHandle"] for entry in exchange.document["Entries"])
        fault(exchange)

    return noted


def test_a_receipt_expires_before_it_is_acknowledged(delivery: Delivery, workers: list[WorkerProcess]) -> None:
    late = Hold(before=True)
    delivery.proxy.spoil(DELETE, late)
    tasks = delivery.submit(1)
    child = delivery.site.wait_for_start(tasks[0])
    wait_until(lambda: late.held, "the acknowledgement")
    # Else it might receive the message again itself, and has one acknowledgement out at a time.
    frozen = next(worker for worker in workers if worker.pid in {p.pid for p in psutil.Process(child).parents()})
    frozen.send(signal.SIGSTOP)
    try:
        wait_until(lambda: delivery.depth() == 0, "another worker to acknowledge it")
        late.let_go()
        wait_until(lambda: late.replies, "the answer to the late one")
    finally:
        frozen.send(signal.SIGCONT)
    [failed] = late.replies[0].document["Failed"]
    assert failed["Code"] == "ReceiptHandleIsInvalid"
    delivery.wait_until_succeeded(tasks)


def test_a_receipt_expires_before_its_message_arrives(delivery: Delivery) -> None:
    receipts: set[str] = set()
    late, others = Hold(before=False), Hold(before=True)
    with delivery.occupied(SLOTS):
        tasks = delivery.submit(1)
        delivery.wait_until_confirmed(tasks)
        delivery.proxy.spoil(RECEIVE, late, *[others] * (WORKERS - 1))
        delivery.proxy.always[DELETE] = noting(receipts)
    wait_until(lambda: late.held, "one worker to be sent the message")
    others.let_go()
    delivery.wait_until_succeeded(tasks)
    wait_until(lambda: delivery.depth() == 0, "another worker to acknowledge it")
    late.let_go()
    wait_until(lambda: late.replies, "the message to arrive")
    [message] = late.replies[0].document["Messages"]
    wait_until(lambda: message["ReceiptHandle"] in receipts, "its acknowledgement, which is too late")


def test_a_dead_poller_swallows_a_message(delivery: Delivery) -> None:
    with delivery.occupied(SLOTS):
        poll_and_die(delivery)
        tasks = delivery.submit(1)
        delivery.wait_until_confirmed(tasks)
        wait_until(lambda: delivery.hidden() == 1, "the message to be swallowed")
    # Nobody gets it for ten minutes, so its repair announces it again.
    delivery.end_repair_times(tasks)
    delivery.wait_until_succeeded(tasks)
    assert delivery.events(tasks) == ["repair"]
    delivery.purge()


def poll_and_die(delivery: Delivery) -> None:
    """Ask for a message with patience, and be gone before there is one."""
    asked = {"QueueUrl": delivery.options[QUEUE].queue_url, "WaitTimeSeconds": 20, "VisibilityTimeout": 600}
    body = json.dumps(asked)
    head = "POST / HTTP/1.1\r\nHost: local\r\nContent-Type: application/x-amz-json-1.0\r\n"
    head += f"X-Amz-Target: AmazonSQS.ReceiveMessage\r\nContent-Length: {len(body)}\r\n\r\n"
    place = urlsplit(delivery.broker.url)
    with socket.create_connection((place.hostname, place.port)) as poller:
        poller.sendall((head + body).encode())
        # The end of what it says is heard after what it asked.
        poller.shutdown(socket.SHUT_WR)


def foreign(**changes: object) -> str:
    told = {"v": VERSION, "tenant": "default", "namespace": "default", "queue": QUEUE, "task": uuid4(), "generation": 1}
    return encode(Reference(**(told | {"publication": uuid4()} | changes)))  # type: ignore[arg-type]


BAD = {
    "malformed": ["no reference", "{}", "[[[[", "\U0001f4a9"],
    "oversized": ["x" * REFERENCE_BYTES],
    "unknown_version": ['{"v": 2}'],
    "foreign": [foreign(tenant="other"), foreign(namespace="other"), foreign(queue="mail")],
    "not_found": [foreign(), foreign(generation=2**31 - 1)],
}


def test_messages_that_nobody_can_claim_stand_in_the_middle_of_good_ones(delivery: Delivery) -> None:
    tasks: list[TaskHandle] = []
    with delivery.occupied(SLOTS):
        for bodies in BAD.values():
            tasks += (good := delivery.submit(5))
            delivery.wait_until_confirmed(good)
            delivery.put(*bodies)
    delivery.wait_until_succeeded(tasks)
    wait_until(lambda: delivery.depth() == 0, "everything to be acknowledged")
    told = Counter(QuarantinedMessage.objects.values_list("reason", flat=True))
    assert told == {reason: len(bodies) for reason, bodies in BAD.items()}


def test_a_queue_is_paused_while_its_messages_are_out(delivery: Delivery) -> None:
    with delivery.occupied(SLOTS):
        tasks = delivery.submit(5)
        delivery.wait_until_confirmed(tasks)
        pause([delivery.queue.pk], operator(), using=delivery.site.alias)
        later = delivery.submit(5)
    wait_until(lambda: delivery.depth() == 0, "the messages to be acknowledged")
    assert delivery.events(tasks) == ["deferred"] * 5
    assert not delivery.claimed([*tasks, *later]).exists()
    resume([delivery.queue.pk], operator(), using=delivery.site.alias)
    delivery.wait_until_succeeded([*tasks, *later])


def delete(delivery: Delivery) -> Callable[[], None]:
    delivery.lose_queues()
    return delivery.make_queues


def kill(delivery: Delivery) -> Callable[[], None]:
    delivery.broker.kill()

    def begin_again() -> None:
        delivery.broker.start()
        delivery.make_queues()

    return begin_again


@pytest.mark.parametrize("lose", [delete, kill])
def test_the_broker_loses_all_and_is_gone_for_a_while(
    delivery: Delivery, lose: Callable[[Delivery], Callable[[], None]]
) -> None:
    with delivery.occupied(SLOTS):
        lost = delivery.submit(10)
        delivery.wait_until_confirmed(lost)
        mend = lose(delivery)
        held_up = delivery.submit(10)
        wait_until(lambda: len(delivery.events(held_up)) >= 10, "all of them to be sent in vain")
    mend()
    delivery.wait_until_succeeded(held_up)
    # Of what was lost nobody knows, until its repair announces it again.
    assert delivery.intents(lost).exclude(confirmed_at=None).count() == 10
    delivery.end_repair_times(lost)
    delivery.wait_until_succeeded(lost)
    assert delivery.events(lost) == ["repair"] * 10
