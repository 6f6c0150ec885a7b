"""The start of a publisher: every destination is inspected, then all routes are activated at once, or none."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ledgence.calls import calling, told_if_not_migrated
from ledgence.conf import get_settings
from ledgence.operations.actions import Operator
from ledgence.operations.publish import RoutedQueue
from ledgence.operations.routes import QueueName, activate
from ledgence.publishing.outage import FIRST_SECONDS, LONGEST_SECONDS
from ledgence.worker_connections import Connections
from ledgence_worker.clock import SystemClock
from ledgence_worker.delivery.ports import DispatchPublisher
from ledgence_worker.errors import BrokerUnavailable, Busy, InvalidInput, LedgenceError, Unavailable
from ledgence_worker.patience import Patience

logger = logging.getLogger("ledgence.publishing")

type Brokers = Mapping[QueueName, DispatchPublisher]
type Addresses = Mapping[QueueName, str]
#: Waits so many seconds, and returns whether the process is to stop.
type Wait = Callable[[float], bool]


class Stopped(Exception):
    """The process was told to stop before it began to publish."""


class Route(Protocol):
    """One route of the configuration. None stands for the project's own tenant and namespace."""

    @property
    def tenant(self) -> str | None: ...
    @property
    def namespace(self) -> str | None: ...
    @property
    def queue(self) -> str: ...

    def publisher(self) -> DispatchPublisher:
        """Return the adapter that sends to the route's destination. Raises InvalidInput, BrokerRefused."""
        ...


class Starter:
    """Repeats, with growing pauses, what may succeed later; ``problem`` says what it waits for.

    With ``once`` nothing is repeated. Raises Stopped while it waits.
    """

    def __init__(self, wait: Wait, *, once: bool) -> None:
        self._wait = wait
        self._once = once
        #: What keeps the process from publishing; empty before and after.
        self.problem = ""

    def open(self, routes: Sequence[Route]) -> Brokers:
        """Make the adapters. Raises InvalidInput when a queue stands twice."""
        settings = get_settings()
        brokers: dict[QueueName, DispatchPublisher] = {}
        for route in routes:
            name = QueueName(
                tenant=settings.tenant if route.tenant is None else route.tenant,
                namespace=settings.namespace if route.namespace is None else route.namespace,
                queue=route.queue,
            )
            if name in brokers:
                raise InvalidInput(f"Queue {name} has two routes; a queue has one destination.")
            brokers[name] = route.publisher()
        return brokers

    def inspect(self, brokers: Brokers) -> Addresses:
        """Ask every broker for its queue's address, as soon as it answers. Raises BrokerRefused."""
        addresses = {}
        for name, broker in brokers.items():
            inspection = self._repeat(broker.inspect, f"route {name}", BrokerUnavailable)
            for warning in inspection.warnings:
                logger.warning("route may not be as wanted queue=%s warning=%s", name, warning)
            addresses[name] = inspection.address
        return addresses

    def activate(self, addresses: Addresses, operator: Operator, connections: Connections) -> list[RoutedQueue]:
        """Activate all routes in one transaction. Raises Conflict, InvalidInput."""

        def try_once() -> dict[QueueName, int]:
            with calling(connections, "publisher"), told_if_not_migrated(connections.using):
                return activate(addresses, operator, using=connections.using)

        ids = self._repeat(try_once, "activation", Busy, Unavailable)
        return [RoutedQueue(id=pk, name=name, destination=addresses[name]) for name, pk in ids.items()]

    def _repeat[T](self, call: Callable[[], T], what: str, *errors: type[LedgenceError]) -> T:
        patience = Patience(SystemClock(), threading.Event(), first=FIRST_SECONDS, ceiling=LONGEST_SECONDS)
        tries = 0
        while True:
            try:
                answer = call()
            except errors as error:
                if self._once:
                    raise
                tries += 1
                self.problem = f"{what}: {error}"
                if tries & (tries - 1) == 0:
                    logger.warning("publisher cannot start yet step=%s tries=%s error=%s", what, tries, error)
            else:
                self.problem = ""
                return answer
            if self._wait(patience.next_seconds()):
                raise Stopped
