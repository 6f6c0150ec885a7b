"""The publisher process: one publisher for each route, hints for all of them, and what its health pages tell."""

import logging
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from queue import Empty, SimpleQueue

from django.db import connections

from ledgence import hints
from ledgence.conf import get_settings
from ledgence.housekeeping import Housekeeping
from ledgence.listener import Listener
from ledgence.operations.actions import Operator
from ledgence.operations.publish import RoutedQueue
from ledgence.publishing.publisher import QueuePublisher
from ledgence.publishing.starting import Addresses, Brokers, Route, Starter, Stopped
from ledgence.worker_connections import RequestConnections, WorkerConnections
from ledgence_worker.errors import LedgenceError

logger = logging.getLogger("ledgence.publishing")

#: How often the process looks whether its publishers have ended, as they do with ``once``.
LOOK_SECONDS = 0.25


class PublisherProcess:
    """Publishes all routes of a configuration. ``operator`` is recorded as who activates them."""

    def __init__(self, routes: Sequence[Route], *, operator: Operator, using: str, once: bool = False) -> None:
        self._routes = routes
        self._operator = operator
        self._once = once
        self._connections = WorkerConnections(using)
        self._housekeeping = Housekeeping(using)
        self._stops: SimpleQueue[None] = SimpleQueue()
        self._starter = Starter(self._wait, once=once)
        self._publishers: list[QueuePublisher] | None = None

    def stop(self) -> None:
        """Ask for the end; a signal handler may call it."""
        # The one thing that is safe between any two instructions of the thread that waits for it.
        self._stops.put(None)

    def run(self) -> bool:
        """Publish until stop(), or what is due now; return whether all that was sent was confirmed.

        Raises BrokerRefused, Conflict and InvalidInput when a route cannot be used: nothing is activated then. With
        ``once`` also BrokerUnavailable, Busy and Unavailable.
        """
        with ExitStack() as stack:
            stack.callback(self._connections.close)
            if not self._once:
                self._housekeeping.start()
                stack.callback(self._housekeeping.close)
            try:
                brokers = self._starter.open(self._routes)
                stack.callback(_close, brokers)
                addresses = self._starter.inspect(brokers)
                queues = self._activate(addresses)
            except Stopped:
                return True
            return self._publish(queues, brokers)

    def _activate(self, addresses: Addresses) -> list[RoutedQueue]:
        # On the connection that Django has for this thread, which needs it for nothing else.
        own = RequestConnections(self._connections.using)
        try:
            return self._starter.activate(addresses, self._operator, own)
        finally:
            connections[own.using].close()

    def _publish(self, queues: Sequence[RoutedQueue], brokers: Brokers) -> bool:
        publishers = [
            QueuePublisher(queue, brokers[queue.name], self._connections, once=self._once) for queue in queues
        ]
        self._publishers = publishers
        threads = [threading.Thread(target=one.run, name="ledgence-publisher") for one in publishers]
        with ExitStack() as stack:
            # Also when this thread fails: the process must not live on without anybody who hears a signal.
            stack.callback(_end, publishers, threads)
            for thread in threads:
                thread.start()
            for queue in queues:
                logger.info("publishing queue=%s destination=%s", queue.name, queue.destination)
            if get_settings().hints and not self._once:
                stack.callback(self._listen().close)
            while any(thread.is_alive() for thread in threads):
                if self._wait(LOOK_SECONDS):
                    logger.info("publisher stopping")
                    break
        return not any(one.has_failed for one in publishers)

    def _listen(self) -> Listener:
        return Listener(self._connections, concerns=self._hear, on_cancel=lambda: None)

    def _hear(self, words: set[str]) -> bool:
        """Pass a hint on to the publishers of the queues that it names."""
        for one in self._publishers or ():
            if hints.EVERYTHING in words or str(one.queue.id) in words:
                one.hint()
        return False

    def _wait(self, seconds: float) -> bool:
        try:
            self._stops.get(timeout=seconds)
        except Empty:
            return False
        return True

    def live_problems(self) -> list[str]:
        """Return why the process should be restarted; empty while it is alive."""
        problems = [problem for one in self._publishers or () for problem in one.live_problems()]
        return problems if self._once else [*self._housekeeping.live_problems(), *problems]

    def ready_problems(self) -> list[str]:
        """Return why work is not published; empty while it is."""
        if self._publishers is None:
            return [f"not publishing yet: {self._starter.problem or 'starting'}"]
        problems = [problem for one in self._publishers for problem in one.ready_problems()]
        problems = [*self.live_problems(), *problems]
        return problems if self._once else [*problems, *self._housekeeping.ready_problems()]


def _end(publishers: Sequence[QueuePublisher], threads: Sequence[threading.Thread]) -> None:
    for one in publishers:
        one.stop()
    for thread in threads:
        if thread.ident is not None:
            thread.join()


def _close(brokers: Brokers) -> None:
    for name, broker in brokers.items():
        try:
            broker.close()
        except (LedgenceError, OSError) as error:
            logger.warning("broker's connections could not be closed queue=%s error=%s", name, error)
