"""The end of a worker that only empties its queues: nothing is queued or active any more."""

import logging
from typing import Final

from ledgence_worker.errors import Busy, Unavailable
from ledgence_worker.shared import Shared

logger = logging.getLogger("ledgence_worker.drained")

#: Such a worker looks for the end this often, so nobody must hold its requests for longer.
DRAIN_WAIT_SECONDS: Final = 1.0


def stop_if_drained(shared: Shared) -> None:
    """Stop the worker if it is to drain and nothing is left; called by a source of work that has brought nothing."""
    if shared.settings.drain and shared.slots.occupied == 0 and _is_drained(shared):
        shared.stopping.request("drained")


def _is_drained(shared: Shared) -> bool:
    try:
        return shared.service.is_drained(shared.session.session_id)
    except (Busy, Unavailable) as error:
        logger.warning("whether work is left is unknown error=%s", error)
        return False
