"""The rows of publishers: which process publishes which queue, whether its broker answers, and what goes wrong."""

import os
import socket
from datetime import timedelta
from importlib.metadata import version
from uuid import UUID

from django.db.models.functions import Now

from ledgence import sql
from ledgence.models import Publisher
from ledgence.operations.publish import RoutedQueue

#: A publisher that has been silent for so long is forgotten when another one of its queue starts.
FORGET_AFTER = timedelta(hours=1)
FAILURE_CHARACTERS = 1024


def forget_silent_publishers(queue: RoutedQueue, *, using: str) -> None:
    """Delete the rows of a queue's publishers that died long ago."""
    silent = Publisher.objects.using(using).filter(queue_id=queue.id, turned_at__lt=Now() - FORGET_AFTER)
    silent.delete()


def record_publisher(
    publisher: UUID, queue: RoutedQueue, *, answered_seconds_ago: float | None, failure: str, using: str
) -> bool:
    """Record that a publisher of this process starts or turns; return whether its route still stands.

    ``answered_seconds_ago``: when its broker last confirmed something or answered an inspection. ``failure``: what goes
    wrong since then, empty while nothing does.
    """
    rows = sql.run(
        "record_publisher",
        using,
        {
            "publisher": publisher,
            "queue": queue.id,
            "destination": queue.destination,
            "host": socket.gethostname()[:255],
            "pid": os.getpid(),
            "version": version("django-ledgence-worker"),
            "answered_seconds_ago": answered_seconds_ago,
            "failure": failure[:FAILURE_CHARACTERS],
        },
    )
    return bool(rows and rows[0][0])


def end_publisher(publisher: UUID, *, using: str) -> None:
    """Delete the row of a publisher that ends. Replayed."""
    Publisher.objects.using(using).filter(pk=publisher).delete()
