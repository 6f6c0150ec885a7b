"""What the operations race over: two tasks in one of the states, and everybody who may act on them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from ledgence.api import submit_many
from ledgence.models import Queue
from ledgence.new_task import NewTask
from ledgence.operations.actions import Operator
from ledgence.operations.authorize import authorize
from ledgence.operations.cancel import cancel
from ledgence.operations.expire import expire
from ledgence.operations.operate import force_expire, republish, requeue, requeue_as_copy
from ledgence.operations.publish import LeasedPublication, RoutedQueue
from ledgence.operations.queues import pause
from ledgence.operations.renew import renew
from ledgence.operations.reschedule import move, run_now, set_priority
from ledgence.operations.routes import give_back
from ledgence.operations.settle import release, settle
from ledgence_worker.errors import LedgenceError
from ledgence_worker.protocol import Outcome, Owner, Settled
from tests.ledger.actors import (
    PROGRAM,
    USING,
    VERSION,
    Worker,
    execute,
    expire_leases,
    make_due,
    operator,
    settlement_of,
)
from tests.ledger.publishers import DEFAULT, PublisherActor

#: The last two are of an external queue: work that is to be published, and work that a publisher holds.
STATES = ("queued", "active", "expired", "reclaimed", "failed", "unpublished", "publishing")
EXTERNAL = ("unpublished", "publishing")
KEYS = ("k0", "k1")
#: An owner tuple that nobody was ever given.
NOBODY = uuid4()

TABLES = ("task", "deliveryintent", "lease", "attempt")
CLEAR = "".join(
    f"delete from ledgence_{table};"  # noqa: S608 - the names are these
    for table in ("operatoractiontarget", "operatoraction", "deliveryevent", *reversed(TABLES))
)
SAVE = "".join(f"create temp table saved_{table} as table ledgence_{table};" for table in TABLES)
RESTORE = CLEAR + "".join(f"insert into ledgence_{table} table saved_{table};" for table in TABLES)
RESTORE += "update ledgence_queue set paused_at = null where paused_at is not null;"
ROUTE = "update ledgence_queue set mode = 'external', destination = 'there' where name = 'default'"
UNROUTE = "update ledgence_queue set mode = 'integrated', destination = null where mode = 'external'"

SNAPSHOT = """
select t.idempotency_key, concat_ws(' ', t.outcome, 'r' || t.revision, 'p' || t.priority, q.name,
    'asked' || (t.cancel_requested_at is not null),
    'intent ' || i.generation || i.cause || i.charged, 'epoch ' || i.epoch || 'sent' || i.publications || 'token' ||
    (i.publish_token is not null) || 'confirmed' || (i.confirmed_at is not null) || 'announced' ||
    (i.publication_id is not null), 'lease ' || l.number || 'c' || l.charged, 'asked' ||
    (l.cancel_requested_at is not null), (select string_agg(concat_ws(':', a.number, a.cause, a.outcome, a.consequence,
    a.settlement is not null, a.late_outcome), ', ' order by a.number) from ledgence_attempt a where a.task_id = t.id))
from ledgence_task t
join ledgence_queue q on q.id = t.queue_id
left join ledgence_deliveryintent i on i.task_id = t.id
left join ledgence_lease l on l.task_id = t.id
where t.idempotency_key is not null
"""


def send(*keys: str) -> list[UUID]:
    return [
        handle.id
        for handle in submit_many([NewTask(program=PROGRAM, version=VERSION, data=k, idempotency_key=k) for k in keys])
    ]


@dataclass
class Cast:
    """Who acts, over all races: the worker that owns the leases, and one for either side."""

    owner: Worker = field(default_factory=Worker)
    sides: tuple[Worker, Worker] = field(default_factory=lambda: (Worker(), Worker()))


class Scene:
    """Two tasks in a state, with the owner tuples of their last attempt and of the one before it.

    Its rows are kept in temporary tables of the test's connection, and restored for each race.
    """

    def __init__(self, cast: Cast, state: str) -> None:
        execute(CLEAR)
        execute(UNROUTE)
        for name in ("default", "other"):
            Queue.objects.get_or_create(tenant="default", namespace="default", name=name)
        self.cast = cast
        # Its last command, which can be repeated in every state.
        cast.owner.acquire(2)
        self.is_external = state in EXTERNAL
        if self.is_external:
            execute(ROUTE)
        self.tasks = send(*KEYS)
        self.names = dict(zip(self.tasks, KEYS, strict=True))
        self.owners = [Owner(task_id=task, number=1, token=NOBODY) for task in self.tasks]
        self.stale = self.owners
        self.leased = [
            LeasedPublication(task_id=task, generation=1, publication_id=uuid4(), token=NOBODY) for task in self.tasks
        ]
        if state == "publishing":
            self.leased = PublisherActor(self.queue).lease()
        if state != "queued" and not self.is_external:
            self._claim()
        if state in ("expired", "reclaimed"):
            expire_leases()
        if state == "reclaimed":
            expire(using=USING)
            make_due()
            self.stale = self.owners
            self._claim()
        if state == "failed":
            self.settle_as(Outcome.FAILED, self.owners)
        self.revision = 1 if state == "failed" else 0
        self.generation = 2 if state == "reclaimed" else 1
        self.same_action = uuid4()
        execute(SAVE)

    def _claim(self) -> None:
        taken = {assignment.task_id: assignment.owner for assignment in self.cast.owner.acquire(2)}
        self.owners = [taken[task] for task in self.tasks]

    @property
    def queue(self) -> RoutedQueue:
        """The tasks' queue, as its publisher knows it."""
        return RoutedQueue(id=Queue.objects.get(name="default").pk, name=DEFAULT, destination="there")

    def restore(self) -> None:
        execute(RESTORE + (ROUTE if self.is_external else UNROUTE))
        self.same_action = uuid4()

    def settle_as(self, outcome: Outcome, owners: Sequence[Owner]) -> list[Settled]:
        batch = [settlement_of(owner, outcome) for owner in owners]
        return settle(self.cast.owner.session_id, batch, using=USING)

    def snapshot(self) -> dict[str, str]:
        """Tell everything that operations decide about each keyed task, without times and tokens."""
        return dict(execute(SNAPSHOT))


#: An operation answers by the tasks' names, in words that do not depend on times and tokens.
type Answers = dict[str, str]
#: It is given the scene, the side that acts, and the tasks in the order in which it names them.
type Operation = Callable[[Scene, int, Sequence[int]], Answers]


def _settling(outcome: Outcome, *, stale: bool = False) -> Operation:
    def run(scene: Scene, side: int, order: Sequence[int]) -> Answers:
        owners = scene.stale if stale else scene.owners
        answers = scene.settle_as(outcome, [owners[place] for place in order])
        return {scene.names[a.task_id]: f"{a.status} {a.consequence}" for a in answers}

    return run


def _acquire(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    worker = scene.cast.sides[side]
    return {scene.names.get(a.task_id, "other"): f"attempt {a.number}" for a in worker.acquire(2)}


def _repeat_acquire(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    worker = scene.cast.owner
    reply = worker.send(worker.sequence, 2)
    assert reply is not None
    live = {scene.names[a.task_id]: f"attempt {a.number}" for a in reply.assignments if a.task_id in scene.names}
    return live | {scene.names[task]: f"lost {number}" for task, number in reply.lost if task in scene.names}


def _claim(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    worker = scene.cast.sides[side]
    reply = worker.claim(*((scene.tasks[place], scene.generation) for place in order))
    return {scene.names[answer.task_id]: str(answer.status) for answer in reply.answers}


def _authorize(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    owners = [scene.owners[place] for place in order]
    answers = authorize(scene.cast.owner.session_id, owners, using=USING)
    return {scene.names[a.owner.task_id]: str(a.is_granted) for a in answers}


def _renew(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    owners = [scene.owners[place] for place in order]
    answers = renew(scene.cast.owner.session_id, owners, using=USING)
    return {scene.names[a.task_id]: f"{a.status} asked{a.cancel_requested}" for a in answers}


def _release(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    answers = release(scene.cast.owner.session_id, [scene.owners[place] for place in order], using=USING)
    return {scene.names[a.task_id]: f"{a.status} {a.consequence}" for a in answers}


def _expire(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    expire(using=USING)
    return {}


def _named(answers: dict[str, str], scene: Scene) -> Answers:
    return {scene.names[UUID(target)]: answer for target, answer in answers.items()}


def _force_expire(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    seen = {scene.tasks[place]: scene.owners[place].number for place in order}
    return _named(force_expire(dict(seen), operator(), using=USING), scene)


def _cancel(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    answers = cancel([scene.tasks[place] for place in order], using=USING)
    return {scene.names[task]: str(status) for task, status in answers.items()}


def _requeue(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    return _named(requeue({scene.tasks[p]: scene.revision for p in order}, operator(), using=USING), scene)


def _requeue_same(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    by = Operator(action_id=scene.same_action, name="op", reason="both sides send the same action")
    return _named(requeue({scene.tasks[p]: scene.revision for p in order}, by, using=USING), scene)


def _copy(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    answers = requeue_as_copy([scene.tasks[place] for place in order], operator(), using=USING)
    return {name: "copied" for name in _named(answers, scene)}


def _republish(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    return _named(republish([scene.tasks[place] for place in order], operator(), using=USING), scene)


def _run_now(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    return _named(run_now(_queued(scene, order), operator(), using=USING), scene)


def _move(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    return _named(move(_queued(scene, order), operator(), queue="other", using=USING), scene)


def _set_priority(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    # Each side another one.
    return _named(set_priority(_queued(scene, order), operator(), priority=side + 1, using=USING), scene)


def _queued(scene: Scene, order: Sequence[int]) -> dict[UUID, int]:
    return {scene.tasks[place]: scene.generation for place in order}


def _submit(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    """Both sides submit the same two new keys and the two old ones, each in its own order."""
    keys = ["new0", "new1"]
    sent = send(*(keys[place] for place in order), *(KEYS[place] for place in order))
    assert set(sent[2:]) == set(scene.tasks)
    return {}


def _pause(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    pause([scene.queue.id], operator(), using=USING)
    return {}


def _give_back(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    [answer] = give_back(scene.queue.id, operator(), using=USING).values()
    return dict.fromkeys(KEYS, answer)


def _lease(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    leased = PublisherActor(scene.queue).lease()
    return {scene.names.get(one.task_id, "other"): f"leased {one.generation}" for one in leased}


def _confirm(scene: Scene, side: int, order: Sequence[int]) -> Answers:
    held = PublisherActor(scene.queue).record(*(scene.leased[place] for place in order))
    return {scene.names[task]: "held" if task in held else "told" for task in scene.tasks}


OPERATIONS: dict[str, Operation] = {
    "submit": _submit,
    "acquire": _acquire,
    "repeat_acquire": _repeat_acquire,
    "claim": _claim,
    "authorize": _authorize,
    "renew": _renew,
    "settle_success": _settling(Outcome.SUCCEEDED),
    "settle_crash": _settling(Outcome.CRASHED),
    "settle_failure": _settling(Outcome.FAILED),
    "settle_stale": _settling(Outcome.SUCCEEDED, stale=True),
    "release": _release,
    "expire": _expire,
    "force_expire": _force_expire,
    "cancel": _cancel,
    "requeue": _requeue,
    "requeue_same": _requeue_same,
    "copy": _copy,
    "republish": _republish,
    "run_now": _run_now,
    "move": _move,
    "set_priority": _set_priority,
    "pause": _pause,
    "give_back": _give_back,
    "lease": _lease,
    "confirm": _confirm,
}
#: These pass over rows that somebody holds instead of waiting, so they may do less than in any order of the two.
SKIPPING = {"acquire", "expire", "renew", "lease", "confirm"}


def answers_of(operation: Operation, scene: Scene, side: int, order: Sequence[int]) -> Answers:
    """Run an operation; an error that callers handle is an answer for every task."""
    try:
        return operation(scene, side, order)
    except LedgenceError as error:
        return dict.fromkeys(KEYS, type(error).__name__)
