"""The routes that a worker serves: which its options cover, whether their brokers answer, and what its session says."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

from ledgence_worker.consumed_queue import ConsumedQueue
from ledgence_worker.delivery.config import Route, read_routes
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable, InvalidInput
from ledgence_worker.protocol import Session
from ledgence_worker.settings import WorkerSettings

logger = logging.getLogger("ledgence_worker.routing")


def served_routes(path: str | None, settings: WorkerSettings) -> tuple[Route, ...]:
    """Return the routes of a file whose queues the worker serves. Raises InvalidInput if the file has none."""
    if path is None:
        return ()
    routes = read_routes(path)
    served = tuple(route for route in routes if settings.serves(route.queue))
    if not served:
        named = ", ".join(sorted({route.queue for route in routes}))
        raise InvalidInput(
            f"{path} routes {named}, and this worker serves none of that: name one with --queue, or leave the file out."
        )
    for route in routes:
        if route not in served:
            logger.info("route not served queue=%s", route.queue)
    return served


def open_queue(route: Route) -> ConsumedQueue:
    """Return the receiving end of a route, with its address if its broker answers now.

    Raises BrokerRefused and InvalidInput: it cannot be used as it is.
    """
    queue = ConsumedQueue(name=route.queue, broker=route.ack_queue())
    try:
        return replace(queue, address=inspect_queue(queue))
    except BrokerUnavailable as error:
        # Its receiver looks at it later: work that comes another way does not wait for this broker.
        logger.warning("broker not available, the worker starts without it queue=%s error=%s", queue.name, error)
        return queue
    except BaseException:
        queue.close()
        raise


def inspect_queue(queue: ConsumedQueue) -> str:
    """Look at a physical queue, and return its address. Raises BrokerRefused, BrokerUnavailable."""
    inspection = queue.broker.inspect()
    for warning in inspection.warnings:
        logger.warning("broker queue=%s destination=%s warning=%s", queue.name, inspection.address, warning)
    logger.info("broker answers queue=%s destination=%s", queue.name, inspection.address)
    return inspection.address


def check_routes(
    routes: Sequence[Route], queues: Sequence[ConsumedQueue], session: Session, settings: WorkerSettings
) -> None:
    """Refuse what could not be served through these routes, and log what is not. Raises InvalidInput, BrokerRefused."""
    for route in routes:
        _check_scope(route, session)
        if route.queue not in session.destinations:
            logger.warning("queue has no active route that this session may use queue=%s", route.queue)
    for queue in queues:
        if queue.address:
            check_destination(queue.name, queue.address, session)
    unrouted = session.destinations.keys() - {route.queue for route in routes}
    if named := sorted(unrouted & set(settings.queues)):
        raise InvalidInput(
            f"The work of {', '.join(named)} comes through a broker: give --delivery-config with its route."
        )
    tell_unserved(unrouted)


def tell_unserved(queues: Collection[str]) -> None:
    """Log external queues that the worker would serve if it had their routes."""
    for queue in sorted(queues):
        logger.warning("queue not served, its work comes through a broker and no route is given queue=%s", queue)


def _check_scope(route: Route, session: Session) -> None:
    own = (session.tenant, session.namespace)
    told = (route.tenant or session.tenant, route.namespace or session.namespace)
    if told != own:
        raise InvalidInput(
            f"The route of queue {route.queue} is of {'/'.join(told)}, and this worker of {'/'.join(own)}: "
            "give it a file of its own."
        )


def check_destination(queue: str, address: str, session: Session) -> None:
    """Refuse a physical queue that is not the one that the queue's work comes through. Raises BrokerRefused."""
    destination = session.destinations.get(queue, address)
    if destination != address:
        # What waits there is another installation's work: it would be found unknown, recorded and removed.
        raise BrokerRefused(
            f"The work of queue {queue} comes through {destination}, and this worker's route leads to {address}: "
            "correct the delivery configuration."
        )


def needs_acquirer(routes: Sequence[Route], settings: WorkerSettings) -> bool:
    """Whether a worker serves queues without a route: all that are not excluded, or one that it names."""
    return not settings.queues or bool(set(settings.queues) - {route.queue for route in routes})
