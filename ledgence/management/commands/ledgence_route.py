"""Routes as a command: listed, and given back to the task service."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ledgence.conf import get_settings
from ledgence.management.operating import (
    OperatingCode,
    add_format,
    aligned,
    check_reason,
    make_operator,
    to_json,
    wrong_usage,
)
from ledgence.models import Publisher, Queue
from ledgence.operations.routes import QueueName, give_back
from ledgence_worker.errors import LedgenceError

TITLES = ("TENANT", "NAMESPACE", "QUEUE", "MODE", "LIVE PUBLISHERS", "DESTINATION")


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteLine:
    """What the list says of a queue."""

    tenant: str
    namespace: str
    queue: str
    mode: str
    #: None of an integrated queue.
    live_publishers: int | None
    destination: str | None


class Command(BaseCommand):
    help = (
        "List the queues with how their work is handed out, or give an external queue back to the task service: at any "
        "time, with its work. A publisher makes the routes of its configuration when it starts."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queue", nargs="?", help="The queue to give back. Without one, all queues are listed.")
        parser.add_argument(
            "--integrated", action="store_true", help="Let the task service hand out its work itself again."
        )
        parser.add_argument("--tenant", help="Default: that of the settings.")
        parser.add_argument("--namespace", help="Default: that of the settings.")
        parser.add_argument("--reason", help="Kept in the record; required with --integrated.")
        add_format(parser)

    def handle(self, *, queue: str | None, integrated: bool, format: str, **options: Any) -> None:
        if queue is None and not integrated:
            self._list(format)
            return
        if queue is None or not integrated or not options["reason"]:
            text = "A queue is given back with QUEUE --integrated --reason TEXT; without any of them all are listed."
            raise wrong_usage(text)
        check_reason(options["reason"])
        settings = get_settings()
        name = QueueName(
            tenant=settings.tenant if options["tenant"] is None else options["tenant"],
            namespace=settings.namespace if options["namespace"] is None else options["namespace"],
            queue=queue,
        )
        self._give_back(name, options["reason"], using=settings.database)

    def _list(self, format: str) -> None:
        lines = find_routes(using=get_settings().database)
        if format == "json":
            self.stdout.write(to_json([asdict(line) for line in lines]))
            return
        for written in aligned([TITLES, *map(_cells, lines)]):
            self.stdout.write(written)

    def _give_back(self, name: QueueName, reason: str, *, using: str) -> None:
        queues = Queue.objects.using(using).filter(tenant=name.tenant, namespace=name.namespace, name=name.queue)
        found = queues.first()
        if found is None:
            raise CommandError(f"There is no queue {name}; nothing was changed.", returncode=OperatingCode.REFUSED)
        try:
            [answer] = give_back(found.pk, make_operator(reason), using=using).values()
        except LedgenceError as error:
            raise CommandError(str(error), returncode=OperatingCode.REFUSED) from error
        if answer == "already":
            self.stdout.write(f"{name} is integrated already; nothing was changed.")
            return
        self.stdout.write(
            f"{name} is integrated: workers get its work from the task service, also what was queued before. "
            f"It was routed to {found.destination}; take the route out of the delivery configuration, or the next "
            "publisher that starts makes it again."
        )


def find_routes(*, using: str) -> list[RouteLine]:
    """Return how every queue hands out its work."""
    live = Counter(Publisher.objects.using(using).live().values_list("queue_id", flat=True))
    rows = Queue.objects.using(using).order_by("tenant", "namespace", "name")
    return [
        RouteLine(
            tenant=row.tenant,
            namespace=row.namespace,
            queue=row.name,
            mode=row.mode,
            live_publishers=live[row.pk] if row.mode == Queue.Mode.EXTERNAL else None,
            destination=row.destination,
        )
        for row in rows
    ]


def _cells(line: RouteLine) -> tuple[str, ...]:
    publishers = "-" if line.live_publishers is None else str(line.live_publishers)
    return (line.tenant, line.namespace, line.queue, line.mode, publishers, line.destination or "-")
