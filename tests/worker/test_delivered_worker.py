"""The whole worker whose work comes through a broker: everything runs once, stops are clean, and sources share."""

import logging
import os
import signal
import threading
from collections.abc import Callable
from uuid import UUID

import pytest

from ledgence.testing.delivery import Faults, MemoryBroker
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable, SessionExpired, Unavailable
from ledgence_worker.protocol import Assignment
from ledgence_worker.worker import Worker
from tests.worker.fakes import FakePool, FakeTaskService, LostReply, make_settings, succeed, wait_for
from tests.worker.routed import QUEUE, SpyQueue, body_of, make_route, put
from tests.worker.test_worker import Driver, terminate


class Scene:
    """One worker, its task service, and a broker that announces the work of its queue."""

    def __init__(self, concurrency: int = 4, program=succeed, faults: Faults | None = None, seed: int = 0) -> None:
        self.service = FakeTaskService(external_queues=(QUEUE,))
        self.broker = MemoryBroker(faults=faults, seed=seed)
        self.spy = SpyQueue(self.broker)
        self.pool = FakePool(concurrency, program)
        self.routes = [make_route(self.spy)]
        self.worker: Worker | None = None

    def submit(self, count: int, queue: str = QUEUE) -> list[Assignment]:
        tasks = self.service.submit(count, queue=queue)
        if queue == QUEUE:
            put(self.broker, tasks)
        return tasks

    def run(self, play: Callable[[], None] = lambda: None, **settings) -> int:
        values = {"queues": (QUEUE,), "receive_wait_seconds": 0.2} | settings
        made = make_settings(concurrency=self.pool.concurrency, **values)
        self.worker = Worker(self.service, self.pool, made, routes=self.routes)
        driver = Driver(play)
        driver.start()
        code = self.worker.run()
        driver.join(10)
        if driver.failure:
            raise driver.failure
        return code

    def settled(self, count: int) -> None:
        self.service.wait_until(lambda: len(self.service.settled) >= count, f"{count} settlements")

    @property
    def left(self) -> int:
        return self.broker.waiting + self.broker.in_flight


def no_threads(name: str) -> bool:
    return not any(thread.name.startswith(f"ledgence-{name}") for thread in threading.enumerate())


def test_everything_announced_runs_once_and_is_acknowledged():
    scene = Scene()
    scene.submit(300)
    assert scene.run(drain=True) == 0
    assert len(scene.service.settled) == len(scene.pool.started) == 300
    assert scene.service.largest_live <= 4
    assert scene.left == 0
    assert scene.service.is_session_closed and scene.service.is_closed and scene.spy.is_closed
    # Nothing is asked for, not even together with settlements.
    assert scene.service.commands == []
    assert all(command.channel == 2 for command in scene.service.claims)


@pytest.mark.parametrize("seed", range(5))
def test_a_broker_that_repeats_reorders_and_forgets_receipts_costs_no_execution(seed):
    scene = Scene(8, faults=Faults(duplicated=0.5, reordered=0.5, receipt_failed=0.3), seed=seed)
    tasks = scene.service.submit(100, queue=QUEUE)
    bodies = [body_of(task) for task in tasks]
    scene.broker.put(*bodies, *reversed(bodies), *bodies[::2])

    def play() -> None:
        scene.settled(100)
        while scene.left:
            scene.broker.end_visibility()
        terminate()

    assert scene.run(play) == 0
    assert len(scene.pool.started) == len(set(scene.pool.started)) == 100


def test_work_that_comes_later_is_received_by_the_waiting_receiver():
    scene = Scene()

    def play() -> None:
        wait_for(lambda: scene.spy.counts, "a receive")
        scene.submit(5)
        scene.settled(5)
        terminate()

    assert scene.run(play, receive_wait_seconds=2) == 0


def test_lost_replies_start_nothing_twice_and_lose_nothing():
    scene = Scene()
    scene.submit(40)
    scene.service.faults["claim"].extend([LostReply(), Unavailable("no"), LostReply()])
    scene.service.faults["settle"].extend([LostReply()])
    assert scene.run(drain=True) == 0
    assert len(scene.service.settled) == len(scene.pool.started) == 40


def test_acknowledging_that_fails_for_ever_changes_nothing(caplog):
    scene = Scene()
    scene.submit(20)
    scene.broker.refuses_receipts = True
    assert scene.run(drain=True) == 0
    assert len(scene.service.settled) == 20
    assert scene.broker.in_flight == 20
    assert "messages not acknowledged" in caplog.text


def test_rubbish_is_put_aside_and_the_worker_goes_on():
    scene = Scene()
    scene.broker.put("rubbish", "{}", "x" * 20_000)
    scene.submit(3)
    assert scene.run(drain=True) == 0
    assert len(scene.service.settled) == 3
    assert len(scene.service.quarantined) == 3
    assert scene.left == 0


def test_a_broker_that_goes_and_comes_back_is_used_again(caplog):
    caplog.set_level(logging.INFO)
    scene = Scene()

    def play() -> None:
        wait_for(lambda: scene.spy.counts, "a receive")
        scene.broker.is_down = True
        wait_for(lambda: "broker not available" in caplog.text, "the outage")
        scene.submit(3)
        scene.broker.is_down = False
        scene.settled(3)
        terminate()

    assert scene.run(play) == 0
    assert "broker answers again" in caplog.text


def test_a_queue_that_is_deleted_is_awaited(caplog):
    scene = Scene()

    def play() -> None:
        wait_for(lambda: scene.spy.counts, "a receive")
        scene.broker.is_missing = True
        wait_for(lambda: "does not exist" in caplog.text, "the refusal")
        scene.broker.is_missing = False
        scene.submit(1)
        scene.settled(1)
        terminate()

    assert scene.run(play) == 0


def test_the_worker_starts_before_its_broker():
    scene = Scene()
    scene.spy.inspections.extend([BrokerUnavailable("down")] * 3)
    scene.submit(1)
    assert scene.run(drain=True) == 0
    assert len(scene.service.settled) == 1


def test_a_broker_that_is_away_at_the_start_holds_up_no_other_queue():
    scene = Scene()
    scene.broker.is_down = True

    def play() -> None:
        scene.submit(3, queue="near")
        scene.settled(3)
        assert scene.spy.counts == []
        scene.submit(2)
        scene.broker.is_down = False
        scene.settled(5)
        terminate()

    assert scene.run(play, queues=()) == 0


def test_a_signal_ends_the_wait_for_a_broker():
    scene = Scene()
    scene.spy.inspections.extend([BrokerUnavailable("down")] * 1000)

    def play() -> None:
        wait_for(lambda: len(scene.spy.inspections) < 998, "a repeated inspection")
        terminate()

    assert scene.run(play) == 0
    assert scene.spy.counts == []
    assert scene.service.is_session_closed and scene.spy.is_closed


def test_a_worker_that_drains_ends_without_its_broker():
    scene = Scene()
    scene.broker.is_down = True
    assert scene.run(drain=True) == 0


def test_a_broker_that_refuses_once_it_answers_ends_the_worker_with_the_reason(caplog):
    scene = Scene()
    scene.spy.inspections.extend([BrokerUnavailable("down"), BrokerRefused("it is a FIFO queue")])
    assert scene.run() == 2
    assert "receiver-far cannot use its queue error=it is a FIFO queue" in caplog.text
    assert scene.spy.counts == []


def test_a_broker_that_turns_out_to_be_another_ends_the_worker_with_both(caplog):
    scene = Scene()
    scene.broker.address = "staging"
    scene.broker.put("another installation's")
    scene.spy.inspections.append(BrokerUnavailable("down"))
    assert scene.run() == 2
    assert "comes through memory, and this worker's route leads to staging" in caplog.text
    assert (scene.spy.counts, scene.broker.waiting) == ([], 1)


def test_a_broker_that_refuses_ends_the_worker_with_the_reason(caplog):
    scene = Scene()
    scene.spy.inspections.append(BrokerRefused("it is a FIFO queue"))
    assert scene.run() == 2
    assert "it is a FIFO queue" in caplog.text
    assert scene.service.opened is None


def test_a_session_of_another_tenant_ends_the_worker_and_is_closed(caplog):
    scene = Scene()
    scene.routes = [make_route(scene.spy, tenant="other")]
    assert scene.run() == 2
    assert "other" in caplog.text
    assert scene.service.is_session_closed and scene.service.is_closed and scene.spy.is_closed
    assert scene.spy.counts == []


def test_a_named_queue_without_its_route_ends_the_worker(caplog):
    scene = Scene()
    scene.routes = []
    assert scene.run() == 2
    assert "--delivery-config" in caplog.text


class TestStop:
    """At each point of a message's way."""

    def test_while_nothing_comes_the_poll_that_is_out_is_awaited(self):
        scene = Scene()
        held = threading.Event()

        def receive():
            terminate()
            wait_for(lambda: scene.worker and scene.worker._stopping.is_requested, "the signal")
            held.wait(0.2)
            return scene.spy.inner.receive(4, 0)

        scene.spy.receives.append(receive)
        scene.submit(2)
        assert scene.run() == 0
        # What it brought is given back at once.
        assert (scene.broker.waiting, scene.service.claims) == (2, [])
        assert scene.service.is_closed
        assert no_threads("receiver")

    def test_while_a_claim_is_out_it_is_resolved_and_what_it_got_is_given_back(self):
        scene = Scene(program=None)
        scene.submit(1)
        call = scene.service.claim

        def claim(command):
            if not scene.service.claims:
                terminate()
            wait_for(lambda: scene.worker and scene.worker._stopping.is_requested, "the signal")
            return call(command)

        scene.service.claim = claim  # type: ignore[method-assign]
        scene.service.faults["claim"].append(LostReply())
        assert scene.run() == 0
        assert len(scene.service.claims) == 2
        # It was not started; the message is acknowledged, since its answer was good.
        assert len(scene.service.released) == 1
        assert scene.pool.started == []
        assert scene.left == 0

    def test_while_work_runs_it_ends_and_due_acknowledgements_are_sent(self):
        scene = Scene(program=None)
        tasks = scene.submit(3)
        ends = threading.Event()
        scene.spy.before_acknowledge = lambda: ends.wait(1)

        def play() -> None:
            scene.pool.wait_until(lambda: len(scene.pool.running) == 3, "three running attempts")
            terminate()
            for task in tasks:
                scene.pool.finish(task)

        assert scene.run(play) == 0
        assert len(scene.service.settled) == 3
        assert scene.left == 0

    def test_that_is_forced_waits_for_no_poll_and_no_claim(self):
        scene = Scene(program=None)
        scene.submit(1)
        scene.service.faults["claim"].extend([Unavailable("no")] * 1000)

        def play() -> None:
            scene.service.wait_until(lambda: len(scene.service.claims) > 1, "a repeated claim")
            terminate()
            wait_for(lambda: scene.worker and scene.worker._stopping._phase, "the first signal")
            os.kill(os.getpid(), signal.SIGINT)

        assert scene.run(play, receive_wait_seconds=20) == 1
        assert scene.left == 1
        assert not no_threads("receiver")
        scene.broker.is_down = True
        wait_for(lambda: no_threads("receiver"), "the end of the poll")

    def test_after_the_grace_a_poll_is_not_awaited(self):
        scene = Scene()
        ends = threading.Event()

        def receive():
            terminate()
            ends.wait(20)
            return []

        scene.spy.receives.append(receive)
        assert scene.run(grace_seconds=0) == 0
        assert scene.service.is_session_closed and scene.service.is_closed
        # It is in use.
        assert not scene.spy.is_closed
        ends.set()
        wait_for(lambda: no_threads("receiver"), "the end of the poll")


def test_a_session_that_is_refused_gives_its_messages_to_others(caplog):
    scene = Scene()
    scene.submit(2)
    scene.service.faults["claim"].append(SessionExpired("over"))
    assert scene.run() == 3
    assert scene.broker.waiting == 2


def test_an_answer_that_does_not_match_ends_the_worker_and_acknowledges_nothing(caplog):
    scene = Scene()
    scene.submit(1)
    scene.service.claim = lambda command: call(command).__class__(answers=())  # type: ignore[method-assign]
    call = FakeTaskService().claim
    assert scene.run() == 3
    assert "claimer-far failed" in caplog.text
    assert scene.spy.acknowledged == []


class TestSources:
    """Work of the task service and of a broker beside each other."""

    @pytest.mark.parametrize("concurrency", [1, 2, 16])
    def test_a_backlog_on_both_starves_neither(self, concurrency):
        scene = Scene(concurrency)
        far = {task.task_id for task in scene.submit(400)}
        near = {task.task_id for task in scene.submit(400, "near")}
        order: list[UUID] = []

        def program(assignment):
            order.append(assignment.task_id)
            return succeed(assignment)

        scene.pool.program = program
        assert scene.run(queues=(), drain=True) == 0
        assert len(order) == 800
        first_half = set(order[:400])
        assert len(first_half & far) > 80, "the broker's work waited for the task service's"
        assert len(first_half & near) > 80, "the task service's work waited for the broker's"
        assert scene.service.largest_live <= concurrency

    @pytest.mark.parametrize("concurrency", [1, 2, 16])
    def test_a_backlog_on_two_brokers_starves_neither(self, concurrency):
        scene = Scene(concurrency)
        other = SpyQueue(MemoryBroker())
        scene.routes.append(make_route(other, queue="farther"))
        scene.service.external_queues = (QUEUE, "farther")
        far = {task.task_id for task in scene.submit(400)}
        farther = scene.service.submit(400, queue="farther")
        put(other.broker, farther)
        order: list[UUID] = []

        def program(assignment):
            order.append(assignment.task_id)
            return succeed(assignment)

        scene.pool.program = program
        assert scene.run(queues=(QUEUE, "farther"), drain=True) == 0
        assert 80 < len(far & set(order[:400])) < 320
        assert len(order) == 800
        assert {command.channel for command in scene.service.claims} == {2, 3}

    @pytest.mark.parametrize("idle", ["near", QUEUE])
    def test_an_idle_source_leaves_the_slots_to_the_busy_one(self, idle):
        scene = Scene(2)
        busy = QUEUE if idle == "near" else "near"
        scene.submit(500, busy)
        assert scene.run(queues=(), drain=True, acquire_wait_seconds=20, receive_wait_seconds=20) == 0
        assert len(scene.service.settled) == 500

    def test_settlements_are_told_alone(self):
        scene = Scene()
        scene.submit(20)
        scene.submit(20, "near")
        assert scene.run(queues=(), drain=True) == 0
        assert len(scene.service.settled) == 40
        assert {command.channel for command in scene.service.commands} == {0}
        assert all(command.settlements == () for command in scene.service.commands)
