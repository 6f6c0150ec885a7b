"""A walk through the operations, so that each hot statement is sent with work to do."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID, uuid4

from django.utils import timezone

from ledgence import sql
from ledgence.models import OperatorAction
from ledgence.operations.authorize import authorize
from ledgence.operations.bulk import Bulk, begin_bulk
from ledgence.operations.cancel import cancel
from ledgence.operations.expire import expire, seconds_to_next_expiry
from ledgence.operations.operate import force_expire, republish, requeue, requeue_as_copy
from ledgence.operations.renew import renew
from ledgence.operations.reschedule import move, run_now, set_priority
from ledgence.operations.settle import settle
from ledgence_worker.protocol import Assignment, Outcome, Owner
from tests.ledger.actors import Worker, execute, operator, raised, settlement_of, submit_tasks

Kind = OperatorAction.Kind
BATCH = 8
#: So many that searches find as many as they ask for: only then they leave marks.
TASKS = 16 * BATCH


def tour(worker: Worker) -> None:
    """Submit due work and take it through every operation of callers, workers, operators and housekeeping."""
    using = worker.using
    tasks = submit_tasks(TASKS, using=using)
    named = submit_tasks(BATCH, using=using)
    reschedule(using)
    keyed = {submit_tasks(using=using, idempotency_key=f"{tasks[0]}-{turn % 4}")[0] for turn in range(BATCH)}
    assert len(keyed) == 4
    run_some(worker)
    ended = end_some(worker)
    cancelled = [*keyed, *(a.task_id for a in worker.acquire(BATCH))]
    cancel(cancelled, using=using)
    republish(named, operator(), using=using)
    claimed = worker.claim(*((task, 1) for task in named)).assignments
    assert len(claimed) == BATCH
    worker.claim((ended[0], 1), (uuid4(), 1))
    assert len(authorize(worker.session_id, [a.owner for a in claimed], using=using)) == BATCH
    let_expire(worker, claimed)
    requeue(dict.fromkeys(keyed, 1), operator(), using=using)
    requeue_as_copy(ended, operator(), using=using)
    sql.run("is_drained", using, {"session": worker.session_id})
    while left := worker.acquire(BATCH * 4):
        settle(worker.session_id, [settlement_of(a) for a in left], using=using)


def reschedule(using: str) -> None:
    """Let operators change when, where and before what queued work waits: a few tasks, and some in chunks."""
    later = submit_tasks(BATCH, run_after=timezone.now() + timedelta(hours=1), using=using)
    seen = dict.fromkeys(later, 1)
    submit_tasks(queue="elsewhere", using=using)
    assert set(run_now(seen, operator(), using=using).values()) == {"due"}
    assert set(move(seen, operator(), queue="elsewhere", using=using).values()) == {"moved"}
    assert set(set_priority(seen, operator(), priority=5, using=using).values()) == {"set"}
    for kind, parameters in ((Kind.SET_PRIORITY, {"priority": 6}), (Kind.CANCEL, None), (Kind.REQUEUE, None)):
        begin_bulk(kind, later, operator(), scope={}, parameters=parameters, using=using)
        bulk = Bulk(using)
        assert bulk.turn()
        assert not bulk.turn()


def run_some(worker: Worker) -> None:
    """Acquire, acquire the same again, and settle together with the next acquisition, which starts at the marks."""
    first = worker.acquire(BATCH)
    assert len(first) == BATCH
    repeated = worker.send(worker.sequence, BATCH)
    assert repeated is not None and len(repeated.assignments) == BATCH
    second = worker.acquire(BATCH, settlements=[settlement_of(a) for a in first])
    settle(worker.session_id, [settlement_of(a) for a in [*first, *second]], using=worker.using)


def end_some(worker: Worker) -> Sequence[UUID]:
    """Renew leases, also with tokens that are not theirs, and end them in failures, retries and releases."""
    mine = worker.acquire(BATCH)
    strangers = [Owner(task_id=a.task_id, number=a.number, token=uuid4()) for a in mine]
    renew(worker.session_id, [*(a.owner for a in mine[1:]), strangers[0]], using=worker.using)
    settle(
        worker.session_id,
        [
            settlement_of(mine[0], Outcome.FAILED, error=raised("ValueError")),
            *(settlement_of(a, Outcome.CRASHED) for a in mine[1:4]),
            *(settlement_of(a, Outcome.INTERRUPTED) for a in mine[4:]),
            *(settlement_of(owner) for owner in strangers[:0]),
        ],
        using=worker.using,
    )
    return [a.task_id for a in mine]


def let_expire(worker: Worker, claimed: Sequence[Assignment]) -> None:
    """Let a few leases expire, by their time and by an operator's hand."""
    by_time, by_hand = claimed[:4], claimed[4:]
    seconds_to_next_expiry(using=worker.using)
    execute(
        "update ledgence_lease set expires_at = clock_timestamp() - interval '1 s' where task_id = any(%s::uuid[])",
        [[a.task_id for a in by_time]],
        using=worker.using,
    )
    assert expire(using=worker.using) >= len(by_time)
    force_expire({a.task_id: a.number for a in by_hand}, operator(), using=worker.using)
