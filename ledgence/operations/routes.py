"""Routes: a queue's work is handed out by the task service itself, or through the destination that the route names."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import IntegrityError
from django.db.models import Exists, OuterRef, QuerySet

from ledgence import hints, sql
from ledgence.models import DeliveryIntent, Lease, OperatorAction, Queue
from ledgence.operations.actions import Answers, Operator, record
from ledgence.transitions import transition
from ledgence_worker.errors import Conflict, InvalidInput
from ledgence_worker.identifiers import check_identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueName:
    """A queue by its scope and name; it need not exist yet."""

    tenant: str
    namespace: str
    queue: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.namespace}/{self.queue}"


def activate(routes: Mapping[QueueName, str], operator: Operator, *, using: str) -> dict[QueueName, int]:
    """Let queues hand out their work through destinations, and return the queues' ids. Atomic: all or none; replayed.

    Makes the queues that do not exist. A route that stands already is left as it is, and its queue is not locked; only
    a change is recorded as an operator's action. Raises InvalidInput when a destination stands twice; Conflict when a
    queue that is integrated has work, is routed elsewhere, or the destination is another queue's; Busy while a
    submission, a requeue or another activation holds a queue.
    """
    _check(routes)
    with transition(using, what="activate"):
        _ensure(routes, using=using)
        found = {name: _find(name, Queue.objects.using(using)) for name in routes}
        new = {name: queue for name, queue in found.items() if _is_new(name, queue, routes[name])}
        # In one order, and without waiting: whoever makes an intent holds its queue, perhaps several of them in another
        # order, and is not to lose against this.
        for name in sorted(new, key=lambda name: new[name].pk):
            new[name] = _find(name, Queue.objects.using(using).select_for_update(nowait=True))
        changed = {name: queue for name, queue in new.items() if _is_new(name, queue, routes[name])}
        for name, queue in changed.items():
            _require_free(name, routes[name], using=using)
            _require_empty(name, queue, using=using)

        def decide() -> Answers:
            for name, queue in changed.items():
                own = Queue.objects.using(using).filter(pk=queue.pk)
                own.update(mode=Queue.Mode.EXTERNAL, destination=routes[name])
            return {str(queue.pk): "external" for queue in changed.values()}

        if changed:
            targets = dict.fromkeys(str(queue.pk) for queue in changed.values())
            try:
                record(operator, OperatorAction.Kind.ROUTE, targets, decide, using=using)
            except IntegrityError as error:
                raise Conflict(f"A destination was given to another queue at this moment: {error}") from error
        return {name: queue.pk for name, queue in found.items()}


def _check(routes: Mapping[QueueName, str]) -> None:
    for name in routes:
        for what in ("tenant", "namespace", "queue"):
            check_identifier(getattr(name, what), what=f"route {name}: {what}")
    for destination, count in Counter(routes.values()).items():
        if count > 1:
            raise InvalidInput(f"Destination {destination} has {count} routes; a physical queue serves one queue.")


def _ensure(routes: Mapping[QueueName, str], *, using: str) -> None:
    names = {
        "tenants": [name.tenant for name in routes],
        "namespaces": [name.namespace for name in routes],
        "queues": [name.queue for name in routes],
    }
    sql.run("ensure_queues", using, names)


def _find(name: QueueName, queues: QuerySet[Queue]) -> Queue:
    return queues.get(tenant=name.tenant, namespace=name.namespace, name=name.queue)


def _is_new(name: QueueName, queue: Queue, destination: str) -> bool:
    """Tell whether a route is to be made. Raises Conflict when there is another."""
    if queue.mode == Queue.Mode.INTEGRATED:
        return True
    if queue.destination == destination:
        return False
    raise Conflict(
        f"Queue {name} is routed to {queue.destination}, not to {destination}. "
        "Give it back first: manage.py ledgence_route QUEUE --integrated --reason TEXT."
    )


def _require_free(name: QueueName, destination: str, *, using: str) -> None:
    other = Queue.objects.using(using).filter(destination=destination).first()
    if other is not None:
        raise Conflict(
            f"Destination {destination} is that of queue {other.tenant}/{other.namespace}/{other.name}. "
            f"A physical queue serves one queue: give {name} one of its own."
        )


def _require_empty(name: QueueName, queue: Queue, *, using: str) -> None:
    # Both in one statement, so in one snapshot: in between an attempt that is retried would be seen in neither.
    has_intents = Exists(DeliveryIntent.objects.filter(queue=OuterRef("pk")))
    has_leases = Exists(Lease.objects.filter(queue=OuterRef("pk")))
    own = Queue.objects.using(using).filter(pk=queue.pk)
    [(queued, active)] = own.values_list(has_intents, has_leases)
    if queued or active:
        what = " and ".join(word for word, is_there in (("queued", queued), ("active", active)) if is_there)
        raise Conflict(f"Queue {name} still has {what} tasks. Let workers empty it, then route it.")


def give_back(queue_id: int, operator: Operator, *, using: str) -> Answers:
    """Let the task service hand out a queue's work itself again, also what is queued now.

    Messages that are still out do no harm: who claims one gets that exact work or learns that it is over. Answers by
    queue id: integrated, already or not_found.
    """

    def decide() -> Answers:
        # Not against submissions: an intent that is made with the old route does no harm in an integrated queue.
        held = Queue.objects.using(using).select_for_update(no_key=True).filter(pk=queue_id).first()
        if held is None:
            return {str(queue_id): "not_found"}
        if held.mode == Queue.Mode.INTEGRATED:
            return {str(queue_id): "already"}
        Queue.objects.using(using).filter(pk=queue_id).update(mode=Queue.Mode.INTEGRATED, destination=None)
        hints.announce({queue_id}, using=using)
        return {str(queue_id): "integrated"}

    return record(operator, OperatorAction.Kind.ROUTE, {str(queue_id): None}, decide, using=using)
