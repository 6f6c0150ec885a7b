"""What housekeeping watches and can only tell: operators act on it."""

import logging
from datetime import timedelta
from typing import NamedTuple

from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from ledgence import sql
from ledgence.models import DeliveryIntent, Publisher, Queue
from ledgence.models.session import silent_after

logger = logging.getLogger("ledgence.watch")

SNAPSHOT_SECONDS = 60.0
UNSERVED_SECONDS = 60.0
#: Publications that have been due for so long with nobody there to send them are not only between two publishers.
UNPUBLISHED_AFTER = timedelta(seconds=30)


class Unserved(NamedTuple):
    """Due work of one program in one queue that no live worker serves."""

    tenant: str
    namespace: str
    queue: str
    program: str
    version: str
    tasks: int
    queue_id: int
    program_id: int


class Unpublished(NamedTuple):
    """An external queue without a live publisher: its work reaches no worker."""

    tenant: str
    namespace: str
    queue: str
    destination: str

    def __str__(self) -> str:
        return (
            f"external queue {self.tenant}/{self.namespace}/{self.queue} has no live publisher; "
            "start manage.py ledgence_publisher with its route, or give it back with manage.py ledgence_route"
        )


def old_snapshots(using: str) -> list[tuple[int, float]]:
    """Return (process id, age in seconds) of transactions whose snapshot is older than a minute.

    While one is open, dead intents and leases cannot be removed, and searches for due work slow down.
    """
    return [(pid, age) for pid, age in sql.run("find_old_snapshots", using, {"seconds": SNAPSHOT_SECONDS})]


def unserved_work(using: str) -> list[Unserved]:
    """Return the work that is due for a minute and that no live worker serves, by queue and program.

    The queue's name may be mistyped, a worker not running, or the version one that no worker has.
    """
    seconds = {"seconds": UNSERVED_SECONDS, "silent_seconds": silent_after().total_seconds()}
    return [Unserved(*row) for row in sql.run("find_unserved_work", using, seconds)]


def unpublished_queues(using: str, *, waiting: bool = False) -> list[Unpublished]:
    """Return the external queues that no live publisher serves; with ``waiting`` those whose work waits for one.

    While a publisher is replaced by another, its queue is without one for a moment, and its work does not wait long.
    """
    live = Publisher.objects.live().filter(queue=OuterRef("pk"))
    queues = Queue.objects.using(using).filter(~Exists(live), mode=Queue.Mode.EXTERNAL)
    if waiting:
        late = DeliveryIntent.objects.filter(queue=OuterRef("pk"), next_publish_at__lte=Now() - UNPUBLISHED_AFTER)
        queues = queues.filter(Exists(late), paused_at=None)
    rows = queues.order_by("tenant", "namespace", "name").values_list("tenant", "namespace", "name", "destination")
    return [Unpublished(tenant, namespace, name, destination or "") for tenant, namespace, name, destination in rows]


def warn_of_unpublished_queues(using: str) -> None:
    """Log unpublished_queues()."""
    for one in unpublished_queues(using):
        logger.warning("external queue without a live publisher tenant=%s namespace=%s queue=%s destination=%s", *one)


def warn_of_old_snapshots(using: str) -> None:
    """Log old_snapshots()."""
    for pid, age in old_snapshots(using):
        logger.warning("old snapshot keeps dead rows pid=%s age_seconds=%.0f", pid, age)


def warn_of_unserved_work(using: str) -> None:
    """Log unserved_work()."""
    for one in unserved_work(using):
        logger.warning(
            "due work that no live worker serves tenant=%s namespace=%s queue=%s program=%s version=%s count=%s",
            *one[:6],
        )
