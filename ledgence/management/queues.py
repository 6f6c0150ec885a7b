"""How commands act on queues, which are named in a scope."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ledgence.conf import get_settings
from ledgence.management.operating import OperatingCode
from ledgence.models import Queue
from ledgence.operations.actions import Answers
from ledgence.operations.routes import QueueName

NAMES = "A queue's name, or - for those on the standard input."


def add_scope(parser: CommandParser) -> None:
    """Add the options that name the scope of queues."""
    parser.add_argument("--tenant", help="Default: that of the settings.")
    parser.add_argument("--namespace", help="Default: that of the settings.")


def act_on_queues(
    names: Sequence[str], options: Mapping[str, Any], perform: Callable[[Mapping[int, int]], Answers], *, using: str
) -> Answers:
    """Perform an operation on queues as they are now, by id and revision, and return the answers by name.

    Raises CommandError, with nothing done, where one does not exist.
    """
    settings = get_settings()
    scope = {
        part: getattr(settings, part) if options[part] is None else options[part] for part in ("tenant", "namespace")
    }
    found = {queue.name: queue for queue in Queue.objects.using(using).filter(name__in=names, **scope)}
    for name in names:
        if name not in found:
            unknown = QueueName(**scope, queue=name)
            raise CommandError(f"There is no queue {unknown}; nothing was changed.", returncode=OperatingCode.REFUSED)
    answers = perform({queue.pk: queue.revision for queue in found.values()})
    return {name: answers[str(found[name].pk)] for name in names}
