"""The scene of consumption: the ledger, a publisher, a broker in memory, and a whole worker on doubles of processes."""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import connections

from ledgence.models import Attempt, DeliveryIntent, Lease
from ledgence.operations.publish import RoutedQueue
from ledgence.testing.delivery import Faults, MemoryBroker
from ledgence_worker.errors import Unavailable
from ledgence_worker.task_service import TaskService
from ledgence_worker.worker import Worker
from tests.faults.waiting import DEADLINE_SECONDS, wait_until
from tests.ledger.actors import CATALOGUE, USING, assert_audit_clean, submit_tasks
from tests.ledger.publishers import route
from tests.ledger.publishing.running import publishing
from tests.worker.fakes import FakePool, make_settings, succeed
from tests.worker.routed import QUEUE, SpyQueue, make_route


class LosingService:
    """A task service whose replies are lost as told: the command is carried out, and nobody hears of it."""

    def __init__(self, service: TaskService) -> None:
        self._service = service
        self.lost: dict[str, int] = {}
        self.calls: deque[str] = deque()
        self.before: Callable[[str], object] = lambda name: None

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._service, name)

        def told(*arguments: Any) -> Any:
            self.calls.append(name)
            self.before(name)
            answer = call(*arguments)
            if self.lost.get(name):
                self.lost[name] -= 1
                raise Unavailable(f"The reply of {name} was lost.")
            return answer

        return told


class Play(threading.Thread):
    """Plays the outside world beside the worker, which needs the main thread, and stops the worker at its end."""

    def __init__(self, play: Callable[[], object], *, stops: Callable[[], bool]) -> None:
        super().__init__(daemon=True)
        self._play = play
        self._stops = stops
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._play()
        except BaseException as failure:
            self.failure = failure
        finally:
            connections.close_all()
        if self._stops():
            os.kill(os.getpid(), signal.SIGTERM)


class Consumption:
    """One external queue, what publishes it, and what consumes it. Every run ends with an audit."""

    def __init__(self, make_service: Callable[[], TaskService]) -> None:
        self._make_service = make_service
        self.broker = MemoryBroker(address="there")
        self.spy = SpyQueue(self.broker)
        self.queue: RoutedQueue = route(QUEUE, "there")
        self.pool = FakePool(4, succeed)
        self.pool.catalogue = CATALOGUE
        self.routes = [make_route(self.spy)]
        self.service: LosingService
        self.worker: Worker

    def submit(self, count: int, **options: Any) -> list[UUID]:
        return submit_tasks(count, **{"queue": QUEUE} | options)

    def look_before_acknowledging(self, look: Callable[[], object]) -> None:
        """Let the acknowledger's thread look at the ledger each time."""

        def look_and_close() -> None:
            look()
            connections.close_all()

        self.spy.before_acknowledge = look_and_close

    @contextmanager
    def publishing(self, faults: Faults | None = None) -> Iterator[None]:
        """Publish what is due while the block runs."""
        self.broker.faults = faults or Faults()
        with publishing(self.queue, self.broker.publisher()):
            yield
        self.broker.faults = Faults()

    def run(self, play: Callable[[], object], *, drain: bool = False, **settings: Any) -> int:
        """Run a worker until ``play`` has ended, or by itself, and return its exit code."""
        before = connections[USING]
        self.service = LosingService(self._make_service())
        values = {
            "tenant": "default",
            "namespace": "default",
            "queues": (QUEUE,),
            "receive_wait_seconds": 0.2,
            "acquire_wait_seconds": 1.0,
            "concurrency": self.pool.concurrency,
        } | settings
        self.worker = Worker(self.service, self.pool, make_settings(drain=drain, **values), routes=self.routes)
        playing = Play(play, stops=lambda: not drain and self.is_running)
        playing.start()
        try:
            code = self.worker.run()
        finally:
            connections[USING] = before
        playing.join(DEADLINE_SECONDS)
        if playing.failure:
            raise playing.failure
        assert_audit_clean()
        return code

    @property
    def is_running(self) -> bool:
        """Whether a signal would reach the worker, and not end the tests."""
        return signal.getsignal(signal.SIGTERM) == self.worker._stopping.on_signal

    @property
    def is_stopping(self) -> bool:
        return self.worker._stopping.is_requested

    def ended(self, *tasks: UUID) -> bool:
        rows = Attempt.objects.filter(task_id__in=tasks, outcome="succeeded")
        return rows.values("task_id").distinct().count() == len(tasks)

    def await_end(self, *tasks: UUID) -> None:
        wait_until(lambda: self.ended(*tasks), f"{len(tasks)} tasks to succeed")

    def await_calls(self, name: str, count: int) -> None:
        wait_until(lambda: self.service.calls.count(name) >= count, f"{count} calls of {name}")

    def await_messages(self, count: int) -> None:
        """Wait until so many are announced, and the publisher knows that they are."""
        confirmed = DeliveryIntent.objects.filter(confirmed_at__isnull=False, publish_token=None)
        wait_until(lambda: confirmed.count() >= count, f"{count} confirmed publications")

    def await_no_messages(self) -> None:
        """Wait until every message is resolved: those in flight without acknowledgement come again."""

        def look() -> bool:
            self.broker.end_visibility()
            return self.left == 0

        wait_until(look, "the broker to be empty")

    @property
    def left(self) -> int:
        with self.broker.changed:
            return self.broker.waiting + self.broker.in_flight

    def assert_each_ran_once(self, *tasks: UUID) -> None:
        """Check that each has one attempt, which succeeded, and nothing else is left of it."""
        rows = Attempt.objects.filter(task_id__in=tasks).values_list(
            "number", "outcome", "delivery_mode", "destination"
        )
        assert set(rows) == {(1, "succeeded", "external", "there")}
        assert len(rows) == len(tasks) == len(set(self.pool.started))
        assert not Lease.objects.exists()
        assert not DeliveryIntent.objects.exists()
