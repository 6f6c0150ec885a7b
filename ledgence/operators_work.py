"""What operators leave to housekeeping: the end of a pause, and actions on more rows than a transaction should hold."""

import logging
import time

from ledgence import sql
from ledgence.operations.bulk import Bulk
from ledgence.operations.queues import resume_over
from ledgence_worker.errors import Busy

logger = logging.getLogger("ledgence.operators_work")

#: How often a process whose role may not do it asks whether it may now.
ASK_SECONDS = 60.0


class OperatorsWork:
    """Does it, a chunk at a time. Any number of processes may; one whose role lacks the rights leaves it to others."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._bulk = Bulk(using)
        self._is_allowed = False
        self._ask_at = 0.0

    def turn(self) -> bool:
        """Do what is due and return whether there is more to do at once."""
        if not self._may():
            return False
        try:
            if resumed := resume_over(using=self._using):
                logger.info("queues resumed, their pause was over count=%s", resumed)
            return self._bulk.turn()
        except Busy as error:
            # Somebody's transaction holds a queue or an action. That is no fault of housekeeping's.
            logger.info("operators' work waits for the next turn error=%s", error)
            return False

    def _may(self) -> bool:
        if not self._is_allowed and time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + ASK_SECONDS
            [(self._is_allowed,)] = sql.run("may_serve_operators", self._using)
        return self._is_allowed
