"""The publisher's process: its start, the hints it passes on, its pages, and its end."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from ledgence.models import DeliveryIntent, Publisher, Queue
from ledgence.publishing import publisher
from ledgence.publishing.process import PublisherProcess
from ledgence.testing.delivery.memory import MemoryBroker
from ledgence_worker.errors import BrokerUnavailable
from tests.faults.waiting import wait_until
from tests.ledger.actors import USING, assert_audit_clean, operator, submit_task, submit_tasks
from tests.ledger.publishing.running import DEADLINE_SECONDS, FakeRoute, sent_to
from tests.ledger.rivals import Rival

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def brokers() -> list[MemoryBroker]:
    return [MemoryBroker(address="first"), MemoryBroker(address="second")]


def process_of(*brokers: MemoryBroker, once: bool = False) -> PublisherProcess:
    routes = [FakeRoute(broker, queue=broker.address) for broker in brokers]
    return PublisherProcess(routes, operator=operator(), using=USING, once=once)


@contextmanager
def running(process: PublisherProcess) -> Iterator[Callable[[], bool | None]]:
    """Run a process on a thread for the block; the function that is given ends it and returns what it answered."""
    answers: list[bool | None] = []
    thread = threading.Thread(target=lambda: answers.append(process.run()), daemon=True)
    thread.start()

    def end() -> bool | None:
        process.stop()
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive(), "the process did not end"
        return answers[0] if answers else None

    try:
        yield end
    finally:
        end()


def is_hinted(broker: MemoryBroker) -> bool:
    """Submit, and return whether anything arrived: a hint that came before the listener listened is one of the next."""
    submit_task(queue=broker.address)
    return sent_to(broker) != []


def test_every_route_is_published_and_hints_reach_the_queue_that_they_name(
    brokers: list[MemoryBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only a hint ends a wait in time.
    monkeypatch.setattr(publisher, "POLL_SECONDS", (60.0, 60.0))
    process = process_of(*brokers)
    with running(process) as end:
        wait_until(lambda: Publisher.objects.live().count() == 2, "both publishers")
        wait_until(lambda: process.ready_problems() == [], "it is ready")
        for broker in brokers:
            wait_until(partial(is_hinted, broker), "a message")
        # Whether its last message was sent before the stop is no matter.
        assert end() is not None
    assert not Publisher.objects.exists()
    assert process.live_problems() == []
    assert_audit_clean()


def test_it_waits_for_every_broker_and_routes_nothing_before(
    brokers: list[MemoryBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledgence.publishing.starting.FIRST_SECONDS", 0.02)
    brokers[1].is_down = True
    process = process_of(*brokers)
    assert process.ready_problems() == ["not publishing yet: starting"]
    with running(process):
        told = "not publishing yet: route default/default/second: The broker of queue second is down."
        wait_until(lambda: process.ready_problems() == [told], "it says what it waits for")
        assert not Queue.objects.exists()
        brokers[1].is_down = False
        wait_until(lambda: Publisher.objects.live().count() == 2, "both publishers")


def test_a_submission_that_holds_a_queue_is_waited_for(
    brokers: list[MemoryBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledgence.publishing.starting.FIRST_SECONDS", 0.02)
    Queue.objects.create(tenant="default", namespace="default", name="first")
    process = process_of(brokers[0])
    with Rival() as rival, pytest.raises(ZeroDivisionError), rival.transaction():
        rival.do(lambda: submit_task(queue="first"))
        with running(process):
            wait_until(lambda: "activation: activate: another" in process.ready_problems()[0], "it says so")
            raise ZeroDivisionError
    with running(process_of(brokers[0])):
        wait_until(lambda: Publisher.objects.live().exists(), "the publisher")


def test_a_stop_while_it_waits_for_its_broker_ends_it(brokers: list[MemoryBroker]) -> None:
    brokers[0].is_down = True
    process = process_of(brokers[0])
    with running(process) as end:
        wait_until(lambda: "is down" in process.ready_problems()[0], "it waits")
        assert end() is True
    assert not Queue.objects.exists()


def test_once_does_not_wait_for_a_broker(brokers: list[MemoryBroker]) -> None:
    brokers[0].is_down = True
    with pytest.raises(BrokerUnavailable, match="is down"):
        process_of(brokers[0], once=True).run()


def test_once_publishes_every_route_and_tells_whether_all_was_confirmed(brokers: list[MemoryBroker]) -> None:
    assert process_of(*brokers, once=True).run() is True
    tasks = [submit_task(queue=broker.address) for broker in brokers]
    assert process_of(*brokers, once=True).run() is True
    assert [sent_to(broker) for broker in brokers] == [[tasks[0]], [tasks[1]]]
    brokers[1].refuse(submit_task(queue="second"))
    assert process_of(*brokers, once=True).run() is False


def test_a_stop_ends_once_before_everything_is_published(
    brokers: list[MemoryBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    process_of(brokers[0], once=True).run()
    submit_tasks(1000, queue="first")
    process = process_of(brokers[0], once=True)
    is_held = threading.Event()
    publish = type(brokers[0].publisher()).publish

    def hold(*arguments: object) -> object:
        process.stop()
        is_held.wait(0.5)
        return publish(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(type(brokers[0].publisher()), "publish", hold)
    assert process.run() is False
    assert 0 < len(brokers[0].sent) < 1000
    assert not DeliveryIntent.objects.exclude(publish_token=None).exists()


def test_a_failure_of_its_own_ends_its_publishers(brokers: list[MemoryBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that goes on would keep the process from ending, and nobody would hear its signals."""
    process = process_of(*brokers)

    def fail() -> None:
        wait_until(lambda: Publisher.objects.live().count() == 2, "both publishers")
        raise ZeroDivisionError

    monkeypatch.setattr(process, "_listen", fail)
    with pytest.raises(ZeroDivisionError):
        process.run()
    assert [thread.name for thread in threading.enumerate() if thread.name == "ledgence-publisher"] == []
    assert not Publisher.objects.exists()
