"""The routes that a worker serves: which its options cover, whether their brokers answer, and what its session says."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

from ledgence_worker.consumed_queue import ConsumedQueue
from ledgence_worker.delivery.config import Route, read_routes
from ledgence_worker.errors import BrokerUnavailable, InvalidInput
from ledgence_worker.patience import BROKER, Patience
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


def open_queue(route: Route, patience: Patience) -> ConsumedQueue:
    """Return the receiving end of a route once its broker has answered, however long that takes.

    Raises BrokerRefused and InvalidInput: it cannot be used as it is.
    """
    queue = ConsumedQueue(name=route.queue, broker=route.ack_queue())
    try:
        inspection = patience.repeat(
            queue.broker.inspect, f"inspect queue={route.queue}", on=(BrokerUnavailable,), whom=BROKER
        )
    except BaseException:
        queue.close()
        raise
    for warning in inspection.warnings:
        logger.warning("broker queue=%s destination=%s warning=%s", route.queue, inspection.address, warning)
    logger.info("broker answers queue=%s destination=%s", route.queue, inspection.address)
    return replace(queue, address=inspection.address)


def check_routes(
    routes: Sequence[Route], queues: Sequence[ConsumedQueue], session: Session, settings: WorkerSettings
) -> None:
    """Refuse what could not be served through these routes, and log what is not. Raises InvalidInput."""
    for route in routes:
        _check_scope(route, session)
    for queue in queues:
        _check_destination(queue, session)
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


def _check_destination(queue: ConsumedQueue, session: Session) -> None:
    destination = session.destinations.get(queue.name)
    if destination is None:
        logger.warning("queue has no active route that this session may use queue=%s", queue.name)
    elif destination != queue.address:
        # What waits there is another installation's work: it would be found unknown, recorded and removed.
        raise InvalidInput(
            f"The work of queue {queue.name} comes through {destination}, and this worker's route leads to "
            f"{queue.address}: correct the delivery configuration."
        )


def needs_acquirer(routes: Sequence[Route], settings: WorkerSettings) -> bool:
    """Whether a worker serves queues without a route: all that are not excluded, or one that it names."""
    return not settings.queues or bool(set(settings.queues) - {route.queue for route in routes})
