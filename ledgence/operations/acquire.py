"""Acquisition: due intents become leases of the session that asks."""

from collections.abc import Callable
from uuid import UUID

from ledgence import sql
from ledgence.operations.channels import check_channel, lock_channel, open_channel, record_answer
from ledgence.operations.due import DueSearch
from ledgence.operations.settle import check_settlements, settle_held
from ledgence.operations.take import take
from ledgence.transitions import transition
from ledgence_worker import limits
from ledgence_worker.errors import ExternalDispatchRequired
from ledgence_worker.protocol import Acquire, Acquired, Assignment

# Others look for the same head at the same time; what they hold is skipped, so look at more than is needed, and at
# still more while that is not enough.
LOOK = 4
LOOK_MAX = 64


def acquire(command: Acquire, *, using: str, search: DueSearch, record_empty: bool = True) -> Acquired | None:
    """Settle ended attempts and take due work on a channel, in one commit.

    Takes the first due intents of the session's queues and catalogue: highest priority first, then the longest
    available. Grants authorization at once. Repeating the channel's last sequence answers what was recorded. With
    ``record_empty`` false, finding nothing consumes no sequence and answers None: the caller may wait and ask again.
    A session that is to drain gets nothing, and is told so at once.
    Raises NotFound, SessionExpired, OutOfOrder, InvalidInput, Busy; and in place of an empty answer, which is not
    recorded, ExternalDispatchRequired when all queues that the session names hand out their work through a broker.
    """
    check_acquire(command)
    with transition(using, what="acquire", batched=True):
        # Sent before anything is read: one round trip for all of it. A repeated command settles nothing twice, and an
        # error rolls everything back.
        channel = lock_channel(command.session_id, command.channel, using=using)
        settle_answers = settle_held(command.session_id, command.settlements, using=using)
        due = search.look(command.session_id, LOOK * command.capacity, using=using)
        opened = open_channel(command.session_id, command.channel, command.sequence, channel(), using=using)
        settled = tuple(settle_answers())
        draining = opened.is_draining
        if opened.recorded is not None:
            assignments, lost = opened.recorded
            return Acquired(assignments=assignments, lost=lost, settled=settled, drain_requested=draining)
        taken = [] if draining else take_due(command.session_id, command.capacity, due, search, using=using)
        if not taken and not settled and not draining:
            if not record_empty:
                return None
            # Only here, so that it costs who finds work nothing.
            if command.capacity:
                _refuse_external_only(command.session_id, using=using)
        record_answer(command.session_id, command.channel, command.sequence, taken, using=using)
        return Acquired(assignments=tuple(taken), settled=settled, drain_requested=draining)


def _refuse_external_only(session_id: UUID, *, using: str) -> None:
    [(is_external_only,)] = sql.send("find_external_only", using, {"session": session_id})()
    if is_external_only:
        raise ExternalDispatchRequired(
            f"Session {session_id} serves external queues only, whose work comes through a broker: "
            "start the worker with --delivery-config, or give a queue back with manage.py ledgence_route."
        )


def check_acquire(command: Acquire) -> None:
    """Refuse what could never be answered, before a transaction begins."""
    check_channel("acquire", command.channel, command.sequence)
    limits.check_range("acquire: capacity", command.capacity, 0, limits.CONCURRENCY_MAX)
    limits.check_range("acquire: wait_seconds", command.wait_seconds, 0, limits.WAIT_SECONDS_MAX)
    check_settlements(command.settlements)


def take_due(
    session_id: UUID, capacity: int, due: Callable[[], list[UUID]], search: DueSearch, *, using: str
) -> list[Assignment]:
    """Take up to ``capacity`` of the intents that a search found, looking further while others hold the first ones."""
    taken: list[Assignment] = []
    looked = LOOK * capacity
    while capacity:
        found = due()
        seen = {a.task_id for a in taken}
        if wanted := [task for task in found if task not in seen]:
            taken += take(session_id, wanted, None, capacity - len(taken), authorize=True, using=using)
        if len(taken) == capacity or len(found) < looked or looked > LOOK_MAX * capacity:
            break
        looked *= LOOK
        due = search.look(session_id, looked, using=using)
    return taken
