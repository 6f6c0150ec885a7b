"""The claim by name: exactly the named generations, five answers, replayed by channel and sequence."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import transaction

from ledgence.models import Attempt, DeliveryEvent, DeliveryIntent, Lease, Queue
from ledgence.operations.cancel import cancel
from ledgence.operations.channels import CHANNEL_MAX
from ledgence.operations.claim import claim
from ledgence.operations.queues import pause, resume
from ledgence.operations.sessions import close_session
from ledgence_worker.claims import Claim, ClaimStatus, Dispatch
from ledgence_worker.errors import InvalidInput, NotFound, OutOfOrder, SessionExpired
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import (
    USING,
    Worker,
    assert_audit_clean,
    execute,
    expire_leases,
    make_due,
    operator,
    statuses_of,
    submit_task,
    submit_tasks,
)
from tests.ledger.frozen import MICROSECOND, FrozenClock
from tests.ledger.rivals import Rival

CLAIMED, HANDED_OFF = ClaimStatus.CLAIMED, ClaimStatus.ALREADY_HANDED_OFF
OVER, DEFERRED, NOT_FOUND = ClaimStatus.TERMINAL_OR_SUPERSEDED, ClaimStatus.DEFERRED, ClaimStatus.NOT_FOUND


def answer(worker: Worker, task, generation=1):
    reply = worker.claim((task, generation))
    [status] = statuses_of(reply).values()
    assert bool(reply.assignments) is (status is CLAIMED)
    return status


def command(session_id, task, *, channel=0, sequence=1, generation=1, authorize=False):
    dispatches = (Dispatch(task_id=task, generation=generation),)
    return Claim(session_id=session_id, channel=channel, sequence=sequence, dispatches=dispatches, authorize=authorize)


def sequence_of(worker: Worker):
    return execute("select sequence from ledgence_channel where session_id = %s", [worker.session_id])[0][0]


def test_a_due_generation_is_claimed_and_not_authorized(clock: FrozenClock, worker: Worker):
    task = submit_task(data={"n": 1}, priority=7)
    reply = worker.claim((task, 1))
    assert statuses_of(reply) == {(task, 1): CLAIMED}
    [assignment] = reply.assignments
    assert (assignment.task_id, assignment.number, assignment.data) == (task, 1, '{"n":1}')
    assert (assignment.remaining_seconds, assignment.timeout_seconds) == (60.0, 300.0)
    assert Attempt.objects.get().authorized_at is None
    assert sequence_of(worker) == 1
    assert_audit_clean()


def test_a_generation_that_holds_a_lease_is_handed_off(worker: Worker):
    task = submit_task()
    Worker().claim((task, 1))
    assert answer(worker, task) == HANDED_OFF
    # Also while the lease is over and nobody has looked.
    expire_leases()
    assert answer(worker, task) == HANDED_OFF


def test_an_earlier_generation_is_superseded(worker: Worker):
    task = submit_task()
    worker.settle(worker.acquire_one(), Outcome.CRASHED)
    assert answer(worker, task, 1) == OVER
    make_due()
    worker.acquire_one()
    assert answer(worker, task, 1) == OVER
    assert answer(worker, task, 2) == HANDED_OFF


def test_a_terminal_task_is_over(worker: Worker):
    done, cancelled = submit_tasks(2)
    worker.settle(worker.acquire_one())
    cancel([cancelled], using=USING)
    assert answer(worker, done) == OVER
    assert answer(worker, cancelled) == OVER


def test_unknown_tasks_and_generations_that_were_never_issued_are_not_found(worker: Worker):
    queued, active = submit_tasks(2)
    worker.claim((active, 1))
    assert answer(worker, uuid4()) == NOT_FOUND
    assert answer(worker, queued, 2) == NOT_FOUND
    assert answer(worker, active, 2) == NOT_FOUND


@pytest.mark.parametrize(("offset", "status"), [(-1, DEFERRED), (0, CLAIMED), (1, CLAIMED)])
def test_what_is_not_due_is_deferred_to_the_microsecond(clock: FrozenClock, worker: Worker, offset, status):
    run_after = clock.now + timedelta(hours=1)
    task = submit_task(run_after=run_after)
    clock.set(run_after + offset * MICROSECOND)
    assert answer(worker, task) == status
    assert DeliveryIntent.objects.count() == (status is DEFERRED)


def test_a_paused_queue_defers(worker: Worker):
    task = submit_task()
    queue = Queue.objects.get().pk
    pause([queue], operator(), using=USING)
    assert answer(worker, task) == DEFERRED
    assert DeliveryIntent.objects.count() == 1
    resume([queue], operator(), using=USING)
    assert answer(worker, task) == CLAIMED


@pytest.mark.django_db
@pytest.mark.parametrize("scope", [{"tenant": "other"}, {"namespace": "other"}])
def test_work_of_another_tenant_or_namespace_is_not_found_in_every_state(scope):
    foreign = Worker(**scope)
    task = submit_task()
    owner = Worker()
    assert answer(foreign, task) == NOT_FOUND
    assert Lease.objects.count() == 0
    assignment = owner.acquire_one()
    assert answer(foreign, task) == NOT_FOUND
    owner.settle(assignment)
    assert answer(foreign, task) == NOT_FOUND


@pytest.fixture
def external(worker: Worker) -> str:
    Queue.objects.create(tenant="default", namespace="default", name="far", mode="external", destination="there")
    return "far"


def test_what_is_not_due_is_published_again_when_it_is(clock: FrozenClock, worker: Worker, external):
    run_after = clock.now + timedelta(hours=1)
    task = submit_task(queue=external, run_after=run_after)
    before = DeliveryIntent.objects.get()
    assert answer(worker, task) == DEFERRED
    after = DeliveryIntent.objects.get()
    assert (after.epoch, after.next_publish_at) == (2, run_after)
    assert after.publication_id != before.publication_id
    [event] = DeliveryEvent.objects.all()
    assert (event.kind, event.epoch, event.publication_id) == ("deferred", 2, after.publication_id)
    assert_audit_clean()


def test_what_waits_for_its_queue_is_due_for_publication_at_once(clock: FrozenClock, worker: Worker, external):
    """So that the publisher, which passes over paused queues, sends it as soon as the queue is resumed."""
    task = submit_task(queue=external)
    execute("update ledgence_deliveryintent set confirmed_at = now(), next_publish_at = now() + interval '1 minute'")
    pause([Queue.objects.get(name=external).pk], operator(), using=USING)
    clock.advance(seconds=1)
    assert answer(worker, task) == DEFERRED
    after = DeliveryIntent.objects.get()
    assert (after.epoch, after.next_publish_at, after.confirmed_at) == (2, clock.now, None)


def test_a_publisher_that_sends_it_meanwhile_has_lost_it(worker: Worker, external):
    task = submit_task(queue=external)
    pause([Queue.objects.get(name=external).pk], operator(), using=USING)
    execute("update ledgence_deliveryintent set publish_token = gen_random_uuid()")
    assert answer(worker, task) == DEFERRED
    assert DeliveryIntent.objects.get().publish_token is None


def test_a_program_that_the_session_does_not_know_is_left_to_others_ever_longer(clock: FrozenClock, external):
    """As while a new version is rolled out: an old worker must neither run it nor get it again and again."""
    task = submit_task(queue=external)
    stranger = Worker(catalogue=())
    waits = []
    for _ in range(14):
        assert answer(stranger, task) == DEFERRED
        waits.append((DeliveryIntent.objects.get().next_publish_at - clock.now).total_seconds())
    assert waits[:4] == [1.0, 2.0, 4.0, 8.0]
    assert waits[-1] == 2048.0
    assert DeliveryEvent.objects.filter(detail__isnull=False).count() == 14
    assert answer(Worker(), task) == CLAIMED
    assert_audit_clean()


def test_work_of_an_integrated_queue_is_deferred_and_not_published(worker: Worker):
    task = submit_task()
    assert answer(Worker(catalogue=()), task) == DEFERRED
    intent = DeliveryIntent.objects.get()
    assert (intent.epoch, intent.publication_id, DeliveryEvent.objects.count()) == (1, None, 0)


@pytest.mark.parametrize("serves", [{"queues": ["other"]}, {"exclude_queues": ["default"]}])
def test_a_queue_that_the_session_does_not_serve_does_not_exist_for_it(worker: Worker, serves):
    """A token may be limited to queues, and a session's are among them."""
    task = submit_task()
    stranger = Worker(**serves)
    assert answer(stranger, task) == NOT_FOUND
    assignment = worker.acquire_one()
    assert answer(stranger, task) == NOT_FOUND
    worker.settle(assignment)
    assert answer(stranger, task) == NOT_FOUND


def test_a_claim_may_authorize_in_its_commit(clock: FrozenClock, worker: Worker):
    task = submit_task(timeout=100)
    named = command(worker.session_id, task, authorize=True)
    claim(named, using=USING)
    assert Attempt.objects.get().authorized_at == clock.now
    clock.advance(seconds=10)
    [assignment] = claim(named, using=USING).assignments
    assert (assignment.remaining_seconds, assignment.timeout_seconds) == (50.0, 90.0)
    assert_audit_clean()


@pytest.mark.parametrize("generation", [0, -1, 2**31])
def test_impossible_generations_are_refused(worker: Worker, generation):
    with pytest.raises(InvalidInput, match="generation"):
        claim(command(worker.session_id, submit_task(), generation=generation), using=USING)


def test_a_dispatch_that_stands_twice_is_refused(worker: Worker):
    task = submit_task()
    with pytest.raises(InvalidInput, match="twice"):
        worker.claim((task, 1), (task, 1))
    assert DeliveryIntent.objects.count() == 1


def test_a_batch_gets_every_answer_and_a_repeat_the_same_ones(clock: FrozenClock, worker: Worker):
    due, later, over = submit_task(), submit_task(run_after=clock.now + timedelta(hours=1)), submit_task()
    cancel([over], using=USING)
    unknown = uuid4()
    named = [(unknown, 1), (over, 1), (later, 1), (due, 1), (due, 2)]
    first = worker.claim(*named)
    assert statuses_of(first) == {
        (due, 1): CLAIMED,
        (due, 2): NOT_FOUND,
        (later, 1): DEFERRED,
        (over, 1): OVER,
        (unknown, 1): NOT_FOUND,
    }
    clock.advance(seconds=10)
    again = worker.claim(*named, sequence=1)
    assert again.answers == first.answers
    [one], [other] = first.assignments, again.assignments
    assert (one.owner, one.remaining_seconds) == (other.owner, other.remaining_seconds + 10)
    assert sequence_of(worker) == 1
    assert_audit_clean()


def test_a_repeat_tells_the_whole_execution_time_while_nothing_was_authorized(clock: FrozenClock, worker: Worker):
    task = submit_task(timeout=100)
    worker.claim((task, 1))
    clock.advance(seconds=10)
    [assignment] = worker.claim((task, 1), sequence=1).assignments
    assert assignment.timeout_seconds == 100.0
    worker.authorize(assignment)
    clock.advance(seconds=10)
    [assignment] = worker.claim((task, 1), sequence=1).assignments
    assert assignment.timeout_seconds == 90.0


def test_a_repeat_after_the_end_hands_nothing_out(worker: Worker):
    task = submit_task()
    [assignment] = worker.claim((task, 1)).assignments
    worker.settle(assignment, Outcome.CRASHED)
    make_due()
    reply = worker.claim((task, 1), sequence=1)
    assert statuses_of(reply) == {(task, 1): OVER}
    assert reply.assignments == ()


def test_every_answered_claim_consumes_its_sequence(worker: Worker):
    assert answer(worker, uuid4()) == NOT_FOUND
    assert sequence_of(worker) == 1
    task = submit_task()
    assert worker.claim((task, 1), sequence=1).assignments == ()
    [assignment] = worker.claim((task, 1), sequence=2).assignments
    assert assignment.task_id == task
    with pytest.raises(OutOfOrder):
        worker.claim((task, 1), sequence=4)
    assert sequence_of(worker) == 2


@pytest.mark.parametrize(("channel", "sequence"), [(0, 0), (0, -1), (-1, 1), (CHANNEL_MAX + 1, 1)])
def test_impossible_channels_and_sequences_are_refused(worker: Worker, channel, sequence):
    task = submit_task()
    with pytest.raises(InvalidInput, match="claim"):
        claim(command(worker.session_id, task, channel=channel, sequence=sequence), using=USING)
    assert DeliveryIntent.objects.count() == 1


def test_an_unknown_or_closed_session_claims_nothing(worker: Worker):
    task = submit_task()
    with pytest.raises(NotFound):
        claim(command(uuid4(), task), using=USING)
    close_session(worker.session_id, using=USING)
    with pytest.raises(SessionExpired):
        worker.claim((task, 1))
    assert DeliveryIntent.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_that_claim_one_generation_the_second_learns_it_is_handed_off():
    one, other = Worker(), Worker()
    task = submit_task()
    with Rival() as rival:
        with transaction.atomic():
            assert answer(one, task) == CLAIMED
            claiming = rival.begin(lambda: answer(other, task))
            rival.wait_until_blocked(claiming)
        assert claiming.result(20) == HANDED_OFF
    assert_audit_clean()
