"""The row of one publisher: others know by it that the queue is published, and itself that it is still routed."""

import logging
import time
from uuid import uuid4

from ledgence.operations.publish import RoutedQueue
from ledgence.operations.publishers import end_publisher, forget_silent_publishers, record_publisher

logger = logging.getLogger("ledgence.publishing")

#: How often it is renewed.
ROW_SECONDS = 10.0


class PublisherRow:
    """Made with the first renewal. Used by one thread."""

    def __init__(self, queue: RoutedQueue, *, using: str) -> None:
        self._id = uuid4()
        self._queue = queue
        self._using = using
        self._is_made = False
        #: When to renew it.
        self.due_at = 0.0
        #: Whether the queue is still routed to where the publisher sends.
        self.is_routed = True

    def renew(self, *, answered_at: float, failure: str) -> None:
        """Record that the publisher turns, when its broker answered last, and what goes wrong since."""
        now = time.monotonic()
        if not self._is_made:
            forget_silent_publishers(self._queue, using=self._using)
        is_routed = record_publisher(
            self._id, self._queue, answered_seconds_ago=now - answered_at, failure=failure, using=self._using
        )
        if self.is_routed and not is_routed:
            logger.warning(
                "queue is not routed here any more queue=%s destination=%s", self._queue.name, self._queue.destination
            )
        self.is_routed, self._is_made = is_routed, True
        self.due_at = now + ROW_SECONDS

    def delete(self) -> None:
        end_publisher(self._id, using=self._using)
