"""Routes: a queue's work is handed out by the task service itself, or through the destination that the route names."""

from collections.abc import Mapping
from dataclasses import dataclass

from ledgence import hints, sql
from ledgence.models import DeliveryIntent, Lease, OperatorAction, Queue
from ledgence.operations.actions import Answers, Operator, record
from ledgence.transitions import transition
from ledgence_worker.errors import Conflict
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

    Makes the queues that do not exist. A route that stands already is left as it is, and only a change is recorded as
    an operator's action. Raises Conflict when a queue that is integrated has work, is routed elsewhere, or the
    destination is another queue's; Busy while a submission or another activation holds a queue.
    """
    names = sorted(routes, key=str)
    for name in names:
        for what in ("tenant", "namespace", "queue"):
            check_identifier(getattr(name, what), what=f"route {name}: {what}")
    with transition(using, what="activate"):
        columns = zip(*((n.tenant, n.namespace, n.queue) for n in names), strict=True)
        tenants, namespaces, queues = map(list, columns)
        sql.run("ensure_queues", using, {"tenants": tenants, "namespaces": namespaces, "queues": queues})
        held = {name: _lock(name, using=using) for name in names}
        new = {name: routes[name] for name, queue in held.items() if _is_new(name, queue, routes[name], using=using)}

        def decide() -> Answers:
            for name, destination in new.items():
                Queue.objects.using(using).filter(pk=held[name].pk).update(
                    mode=Queue.Mode.EXTERNAL, destination=destination
                )
            return {str(held[name].pk): "external" for name in new}

        if new:
            targets = dict.fromkeys(str(held[name].pk) for name in new)
            record(operator, OperatorAction.Kind.ROUTE, targets, decide, using=using)
        return {name: queue.pk for name, queue in held.items()}


def _lock(name: QueueName, *, using: str) -> Queue:
    """Lock a queue against submissions, requeues and other activations until the commit."""
    # FOR UPDATE, which waits for the key share that whoever makes an intent holds: none is made with the old route.
    rows = Queue.objects.using(using).select_for_update()
    return rows.get(tenant=name.tenant, namespace=name.namespace, name=name.queue)


def _is_new(name: QueueName, queue: Queue, destination: str, *, using: str) -> bool:
    """Tell whether a route is to be made. Raises Conflict where it cannot."""
    if queue.mode == Queue.Mode.EXTERNAL:
        if queue.destination == destination:
            return False
        raise Conflict(
            f"Queue {name} is routed to {queue.destination}, not to {destination}. "
            "Give it back first: manage.py ledgence_route --integrated."
        )
    other = Queue.objects.using(using).filter(destination=destination).first()
    if other is not None:
        raise Conflict(
            f"Destination {destination} is that of queue {other.tenant}/{other.namespace}/{other.name}. "
            f"A physical queue serves one queue: give {name} one of its own."
        )
    if DeliveryIntent.objects.using(using).filter(queue=queue).exists():
        raise Conflict(f"Queue {name} still has queued tasks. Let workers empty it, then route it.")
    if Lease.objects.using(using).filter(queue=queue).exists():
        raise Conflict(f"Queue {name} still has active tasks. Wait until they end, then route it.")
    return True


def give_back(queue_id: int, operator: Operator, *, using: str) -> Answers:
    """Let the task service hand out a queue's work itself again, also what is queued now.

    Messages that are still out do no harm: who claims one gets that exact work or learns that it is over. Answers by
    queue id: integrated, already or not_found.
    """

    def decide() -> Answers:
        held = Queue.objects.using(using).select_for_update().filter(pk=queue_id).first()
        if held is None:
            return {str(queue_id): "not_found"}
        if held.mode == Queue.Mode.INTEGRATED:
            return {str(queue_id): "already"}
        Queue.objects.using(using).filter(pk=queue_id).update(mode=Queue.Mode.INTEGRATED, destination=None)
        hints.announce({queue_id}, using=using)
        return {str(queue_id): "integrated"}

    return record(operator, OperatorAction.Kind.ROUTE, {str(queue_id): None}, decide, using=using)
