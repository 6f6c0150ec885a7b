"""docs/state-machine.md says what the operations do: every pair of state and move in its table is carried out."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

import ledgence
from ledgence.models import DeliveryIntent, Lease, Queue, State
from ledgence.operations.cancel import cancel
from ledgence.operations.expire import expire
from ledgence.operations.operate import cancel_by_operator, force_expire, republish, requeue, requeue_as_copy
from ledgence.operations.queues import pause
from ledgence.operations.reschedule import move, run_now, set_priority
from ledgence_worker.protocol import Outcome, Owner
from tests.docs.reading import DOCS, table
from tests.ledger.actors import (
    PROGRAM,
    USING,
    VERSION,
    Worker,
    assert_audit_clean,
    execute,
    expire_leases,
    operator,
    state_of,
    submit_task,
)

pytestmark = pytest.mark.django_db

PAGE = DOCS / "state-machine.md"
KEY = "the first"
TERMINAL = ("succeeded", "failed", "cancelled")


class Scene:
    """One task in a state of the table, its worker, and the owner of its last attempt (of none: nobody)."""

    def __init__(self, state: str) -> None:
        self.worker = Worker()
        later = timezone.now() + timedelta(hours=1)
        self.task = submit_task(idempotency_key=KEY, max_attempts=2, run_after=later if state == "later" else None)
        self.owner = Owner(task_id=self.task, number=1, token=uuid4())
        if state not in ("queued", "later"):
            self.owner = self.worker.acquire_one().owner
        if state in ("cancelling", "cancelled"):
            cancel([self.task], using=USING)
        if state == "expired":
            expire_leases()
        if ending := {"succeeded": Outcome.SUCCEEDED, "failed": Outcome.FAILED, "cancelled": Outcome.CANCELLED}.get(
            state
        ):
            self.worker.settle(self.owner, ending)

    @property
    def state(self) -> str:
        """The task's state in the words of the table, which tell more than State does."""
        state = state_of(self.task)
        if state == State.QUEUED:
            return "later" if DeliveryIntent.objects.get(pk=self.task).available_at > timezone.now() else "queued"
        if state == State.ACTIVE:
            lease = Lease.objects.get(pk=self.task)
            is_expired = Lease.objects.expired().filter(pk=self.task).exists()
            return "expired" if is_expired else "cancelling" if lease.cancel_requested_at else "active"
        return state


type Move = Callable[[Scene], str]


def submit_again(scene: Scene) -> str:
    handle = ledgence.submit(PROGRAM, version=VERSION, idempotency_key=KEY)
    assert handle.id == scene.task
    return "new" if handle.is_new else "the first task"


def acquire(scene: Scene) -> str:
    return "taken" if [a.task_id for a in Worker().acquire(2)] == [scene.task] else "nothing"


def claim(scene: Scene) -> str:
    [answer] = Worker().claim((scene.task, 1)).answers
    return answer.status


def authorize(scene: Scene) -> str:
    return "granted" if scene.worker.authorize(scene.owner).is_granted else "refused"


def renew(scene: Scene) -> str:
    answer = scene.worker.renew(scene.owner)
    return f"{answer.status}, told to stop" if answer.cancel_requested else answer.status


def settle_as(outcome: Outcome) -> Move:
    return lambda scene: scene.worker.settle(scene.owner, outcome).status


def settle_the_last_attempt(scene: Scene) -> str:
    execute("update ledgence_lease set charged = 1")
    execute("update ledgence_deliveryintent set charged = 1")
    return scene.worker.settle(scene.owner, Outcome.CRASHED).status


def expire_all(scene: Scene) -> str:
    return "ended" if expire(using=USING) else "nothing"


def _of(answers: dict[str, str], task: UUID) -> str:
    return answers[str(task)]


def copy(scene: Scene) -> str:
    made = UUID(_of(requeue_as_copy([scene.task], operator(), using=USING), scene.task))
    assert state_of(made) == "queued"
    return "a new task"


def pause_queue(scene: Scene) -> str:
    [answer] = pause([Queue.objects.get().pk], operator(), using=USING).values()
    return answer


def acquire_while_paused(scene: Scene) -> str:
    pause_queue(scene)
    return acquire(scene)


def claim_while_paused(scene: Scene) -> str:
    pause_queue(scene)
    return claim(scene)


def requeue_seen(scene: Scene) -> str:
    revision = 1 if scene.state in TERMINAL else 0
    return _of(requeue({scene.task: revision}, operator(), using=USING), scene.task)


def requeue_moved_on(scene: Scene) -> str:
    return _of(requeue({scene.task: 7}, operator(), using=USING), scene.task)


def cancel_moved_on(scene: Scene) -> str:
    return _of(cancel_by_operator({scene.task: 7}, operator(), using=USING), scene.task)


def run_now_seen(scene: Scene, generation: int = 1) -> str:
    return _of(run_now({scene.task: generation}, operator(), using=USING), scene.task)


def move_away(scene: Scene) -> str:
    Queue.objects.create(tenant="default", namespace="default", name="other")
    return _of(move({scene.task: 1}, operator(), queue="other", using=USING), scene.task)


def prioritize(scene: Scene) -> str:
    return _of(set_priority({scene.task: 1}, operator(), priority=9, using=USING), scene.task)


MOVES: dict[str, Move] = {
    "submit, same key": submit_again,
    "acquire": acquire,
    "claim by name": claim,
    "authorize": authorize,
    "renew": renew,
    **{f"settle {outcome}": settle_as(outcome) for outcome in Outcome if outcome is not Outcome.INTERRUPTED},
    "settle crashed, last attempt": settle_the_last_attempt,
    "release": lambda scene: scene.worker.release(scene.owner)[0].status,
    "expire": expire_all,
    "cancel": lambda scene: cancel([scene.task], using=USING)[scene.task],
    "cancel, other revision": cancel_moved_on,
    "requeue": requeue_seen,
    "requeue, other revision": requeue_moved_on,
    "copy": copy,
    "republish": lambda scene: _of(republish([scene.task], operator(), using=USING), scene.task),
    "run now": run_now_seen,
    "run now, other generation": lambda scene: run_now_seen(scene, 7),
    "move to another queue": move_away,
    "set priority": prioritize,
    "force-expire": lambda scene: _of(force_expire({scene.task: 1}, operator(), using=USING), scene.task),
    "force-expire, other attempt": lambda scene: _of(
        force_expire({scene.task: 7}, operator(), using=USING), scene.task
    ),
    "pause its queue": pause_queue,
    "acquire, queue paused": acquire_while_paused,
    "claim by name, queue paused": claim_while_paused,
}
ROWS = {row["Move"]: row for row in table(PAGE, "Move")}
STATES = ("queued", "later", "active", "cancelling", "expired", *TERMINAL)


def told(row: dict[str, str], state: str) -> tuple[str, str]:
    """Return the answer and the state after it, as a cell tells them; without an arrow the state stays."""
    answer, _, after = row[state].partition(" → ")
    return answer, after or state


def test_the_table_has_every_pair() -> None:
    assert list(ROWS) == list(MOVES)
    assert {tuple(row) for row in ROWS.values()} == {("Move", *STATES)}


def test_every_state_has_its_row_in_the_list_of_states() -> None:
    assert [row["State"] for row in table(PAGE, "State")] == list(STATES)
    assert set(State) <= set(STATES)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("move", MOVES)
def test_the_pair_is_as_told(move: str, state: str) -> None:
    scene = Scene(state)
    assert scene.state == state
    answer = str(MOVES[move](scene))
    after = scene.state
    assert (answer, after) == told(ROWS[move], state)
    if after != state:
        assert_audit_clean()
