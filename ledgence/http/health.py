"""Whether the task service is well: alive, and ready to be given requests."""

import logging

from ledgence.housekeeping import SILENCE_SECONDS_MAX, seconds_since_turn
from ledgence.http.endpoint import Reply, Request, answer
from ledgence.http.replies import detail_of
from ledgence.watch import unpublished_queues
from ledgence_worker.bodies import Health
from ledgence_worker.errors import LedgenceError

logger = logging.getLogger("ledgence.http")

START = "start manage.py ledgence_recover or a worker with a database, or wrap the ASGI application"


def live(request: Request) -> Reply:
    """Tell that the process answers."""
    return answer(Health(status="live"))


def ready(request: Request) -> Reply:
    """Tell whether requests would succeed, and if not, why."""
    reasons = _reasons(request)
    if reasons:
        return answer(Health(status="not ready", reasons=tuple(reasons)), status=503)
    return answer(Health(status="ready"))


def _reasons(request: Request) -> list[str]:
    try:
        with request.service.calling("health"):
            silence = seconds_since_turn(using=request.using)
            unpublished = unpublished_queues(request.using, waiting=True)
    except LedgenceError as error:
        logger.warning("readiness failed error=%s", error)
        return [f"database: {detail_of(error)}"]
    reasons = [f"publication: {queue}" for queue in unpublished]
    # Judged by itself and not by leases: one that somebody holds, or that a trigger keeps, says nothing of it.
    if silence is None:
        reasons.append(f"housekeeping: nobody has ever run it; {START}")
    elif silence > SILENCE_SECONDS_MAX:
        reasons.append(f"housekeeping: nobody has run it for {silence:.0f} s; {START}")
    return reasons
