"""Whether the task service is well: alive, and ready to be given requests."""

import logging

from ledgence import sql
from ledgence.http.endpoint import Reply, Request, answer
from ledgence.http.replies import detail_of
from ledgence_worker.bodies import Health
from ledgence_worker.errors import LedgenceError

logger = logging.getLogger("ledgence.http")

#: Housekeeping looks every second or so: a lease that has been over for so long is one that nobody ends.
OVERDUE_SECONDS = 40.0


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
            [(overdue,)] = sql.run("find_overdue", request.using)
    except LedgenceError as error:
        logger.warning("readiness failed error=%s", error)
        return [f"database: {detail_of(error)}"]
    if overdue is None or overdue <= OVERDUE_SECONDS:
        return []
    return [
        f"housekeeping: a lease has been over for {overdue:.0f} s and nobody ends it; run manage.py ledgence_recover"
    ]
