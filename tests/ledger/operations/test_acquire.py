"""Acquisition: due work of the session's queues and catalogue, in order, recorded on the channel, replayed."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import transaction

from ledgence.models import Attempt, Channel, DeliveryIntent, Lease, Queue
from ledgence.operations.acquire import acquire
from ledgence.operations.channels import CHANNEL_MAX
from ledgence.operations.due import DueSearch
from ledgence.operations.expire import expire
from ledgence.operations.queues import pause
from ledgence.operations.reschedule import move
from ledgence.operations.routes import give_back
from ledgence.operations.sessions import close_session
from ledgence_worker.errors import Busy, ExternalDispatchRequired, InvalidInput, NotFound, OutOfOrder, SessionExpired
from ledgence_worker.limits import CONCURRENCY_MAX, WAIT_SECONDS_MAX
from ledgence_worker.protocol import Acquire, Acquired, CatalogueEntry, Outcome, SettleStatus
from tests.ledger.actors import (
    PROGRAM,
    USING,
    VERSION,
    Worker,
    assert_audit_clean,
    execute,
    expire_leases,
    make_due,
    operator,
    outcomes_of,
    settlement_of,
    state_of,
    submit_task,
    submit_tasks,
)
from tests.ledger.frozen import MICROSECOND, FrozenClock
from tests.ledger.publishers import route
from tests.ledger.rivals import Rival


def tasks_of(assignments):
    return [assignment.task_id for assignment in assignments]


def lock_intents(rival: Rival, tasks):
    rival.execute("select 1 from ledgence_deliveryintent where task_id = any(%s) order by task_id for update", [tasks])


def test_what_is_taken_becomes_an_attempt_and_a_lease_in_one_commit(clock: FrozenClock, worker: Worker):
    task = submit_task(data={"b": 1.0, "a": "\0"}, priority=3, traceparent="00-a-b-01", timeout=100)
    clock.advance(seconds=5)
    assignment = worker.acquire_one()
    assert assignment == replace(
        assignment,
        task_id=task,
        number=1,
        cause="submitted",
        tenant="default",
        namespace="default",
        queue="default",
        program=PROGRAM,
        version=VERSION,
        data='{"b":1.0,"a":"\\u0000"}',
        claimed_at=clock.now,
        remaining_seconds=60.0,
        timeout_seconds=100.0,
        traceparent="00-a-b-01",
        earlier=(),
    )
    lease, attempt = Lease.objects.get(), Attempt.objects.get()
    assert (lease.token, lease.number, lease.session_id) == (assignment.token, 1, worker.session_id)
    assert (attempt.token, attempt.authorized_at) == (assignment.token, clock.now)
    assert lease.bound_at == clock.now + timedelta(seconds=130)
    assert not DeliveryIntent.objects.exists()
    assert_audit_clean()


def test_priority_comes_first_then_time_then_id_over_all_queues(clock: FrozenClock, worker: Worker):
    def at(seconds, **options):
        task = submit_task(**options)
        moment = clock.now - timedelta(seconds=seconds)
        execute("update ledgence_deliveryintent set available_at = %s where task_id = %s", [moment, task])
        return task

    low = at(90, priority=-100)
    old_b, old_a = at(50, queue="b"), at(60, queue="a")
    high = at(1, priority=100, queue="c")
    twins = sorted(at(30, queue=queue) for queue in ("b", "a", "default"))
    urgent = at(2, priority=99)
    expected = [high, urgent, old_a, old_b, *twins, low]
    assert tasks_of(worker.acquire(20)) == expected


def test_a_capacity_is_not_exceeded_and_the_rest_comes_next(worker: Worker):
    tasks = submit_tasks(5)
    assert tasks_of(worker.acquire(2)) == tasks[:2]
    assert tasks_of(worker.acquire(2)) == tasks[2:4]
    assert tasks_of(worker.acquire(2)) == tasks[4:]
    assert worker.acquire(2) == []


def test_only_programs_of_the_catalogue_are_taken(db):
    def catalogue(*versions):
        return tuple(CatalogueEntry(name=PROGRAM, version=v, entry_point=f"m:v{v}") for v in versions)

    one, two = submit_task(version="1"), submit_task(version="2")
    assert tasks_of(Worker(catalogue=catalogue("2")).acquire(5)) == [two]
    assert tasks_of(Worker(catalogue=catalogue("1", "2")).acquire(5)) == [one]


@pytest.mark.parametrize(
    ("queues", "exclude_queues", "expected"),
    [
        ((), (), "abc"),
        (("a",), (), "a"),
        (("c", "a"), (), "ac"),
        ((), ("b",), "ac"),
        (("a", "b"), ("b",), "a"),
        (("unknown",), (), ""),
    ],
)
def test_a_session_is_served_from_its_queues(db, queues, exclude_queues, expected):
    named = {submit_task(queue=name): name for name in "abc"}
    worker = Worker(queues=queues, exclude_queues=exclude_queues)
    assert "".join(named[task] for task in tasks_of(worker.acquire(5))) == expected


def test_a_queue_made_after_the_session_opened_is_served(worker: Worker):
    task = submit_task(queue="later")
    assert worker.acquire_one().task_id == task


@pytest.mark.parametrize("scope", [{"tenant": "other"}, {"namespace": "other"}])
def test_work_of_another_tenant_or_namespace_is_not_seen(db, scope):
    submit_task()
    own = submit_task(**scope)
    assert tasks_of(Worker(**scope).acquire(5)) == [own]


def test_a_paused_queue_hands_nothing_out_on_either_path(worker: Worker):
    submit_tasks(10, queue="a")
    [other] = submit_tasks(1, queue="b")
    worker.acquire(2)
    pause([Queue.objects.get(name="a").pk], operator(), using=USING)
    # The channel remembers where the head of queue a was.
    assert tasks_of(worker.acquire(2)) == [other]


def test_an_external_queue_hands_nothing_out_on_either_path(worker: Worker):
    submit_tasks(10)
    worker.acquire(2)
    Queue.objects.update(mode="external", destination="there")
    assert worker.acquire(2) == []
    assert Worker().acquire(2) == []


@pytest.mark.parametrize(("offset", "count"), [(-1, 0), (0, 1), (1, 1)])
def test_what_is_not_due_is_not_handed_out_to_the_microsecond(clock: FrozenClock, worker: Worker, offset, count):
    run_after = clock.now + timedelta(hours=1)
    submit_task(run_after=run_after)
    clock.set(run_after + offset * MICROSECOND)
    assert len(worker.acquire(1)) == count


def test_what_became_undue_after_the_look_is_not_handed_out(clock: FrozenClock, worker: Worker, monkeypatch):
    task = submit_task()
    worker.search = DueSearch()
    look = worker.search.look

    def look_and_move(*args, **options):
        found = look(*args, **options)()
        execute("update ledgence_deliveryintent set available_at = %s", [clock.now + MICROSECOND])
        return lambda: found

    monkeypatch.setattr(worker.search, "look", look_and_move)
    assert worker.acquire(1) == []
    assert state_of(task) == "queued"


def test_what_was_moved_after_the_look_to_a_queue_that_is_not_served_is_not_handed_out(monkeypatch, db):
    task, _ = submit_task(), submit_task(queue="other")
    worker = Worker(queues=["default"])
    look = worker.search.look

    def look_and_move(*args, **options):
        found = look(*args, **options)()
        move([task], operator(), queue="other", using=USING)
        return lambda: found

    monkeypatch.setattr(worker.search, "look", look_and_move)
    assert worker.acquire(1) == []
    assert state_of(task) == "queued"


@pytest.mark.django_db(transaction=True)
def test_authority_counts_from_after_a_wait(settings):
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 10}
    worker, task = Worker(), submit_task()
    with Rival() as rival:
        with transaction.atomic():
            execute("lock table ledgence_lease in share mode")
            taking = rival.begin(worker.acquire_one)
            rival.wait_until_blocked(taking)
            [(waiting_at,)] = execute("select clock_timestamp()")
        assert taking.result(20).task_id == task
    assert Attempt.objects.get().claimed_at > waiting_at


def test_a_time_in_the_past_means_now_and_is_no_way_to_the_front(clock: FrozenClock, worker: Worker):
    first = submit_task()
    clock.advance(seconds=1)
    sly = submit_task(run_after=clock.now - timedelta(days=1))
    assert DeliveryIntent.objects.get(pk=sly).available_at == clock.now
    assert tasks_of(worker.acquire(2)) == [first, sly]


def test_a_repeat_returns_the_recorded_assignments_with_less_authority(clock: FrozenClock, worker: Worker):
    submit_tasks(5)
    first = worker.send(1, 2)
    assert first is not None
    clock.advance(seconds=10)
    # The capacity is not part of the command's identity.
    for capacity in (2, 0, 5):
        again = worker.send(1, capacity)
        assert again == Acquired(
            assignments=tuple(replace(a, remaining_seconds=50.0, timeout_seconds=290.0) for a in first.assignments)
        )
    assert Lease.objects.count() == 2


def test_a_repeat_tells_ended_assignments_as_lost(worker: Worker):
    tasks = submit_tasks(4)
    first = worker.send(1, 4)
    assert first is not None
    live, settled, over, reclaimed = first.assignments
    worker.settle(settled)
    expire_leases(reclaimed.task_id)
    expire(using=USING)
    make_due()
    Worker().acquire(1)
    expire_leases(over.task_id)
    again = worker.send(1, 4)
    assert again is not None
    assert [a.owner for a in again.assignments] == [live.owner]
    assert again.lost == tuple((task, 1) for task in tasks[1:])


@pytest.mark.parametrize(("offset", "live"), [(-1, 1), (0, 0), (1, 0)])
def test_a_repeat_hands_out_no_expired_authority_to_the_microsecond(clock: FrozenClock, worker: Worker, offset, live):
    submit_task()
    worker.send(1)
    clock.set(Lease.objects.get().expires_at + offset * MICROSECOND)
    again = worker.send(1)
    assert again is not None
    assert (len(again.assignments), len(again.lost)) == (live, 1 - live)


def test_a_repeat_is_answered_though_the_session_is_closed(worker: Worker):
    submit_task()
    first = worker.send(1)
    close_session(worker.session_id, using=USING)
    again = worker.send(1)
    assert again is not None and first is not None
    assert [a.owner for a in again.assignments] == [a.owner for a in first.assignments]
    with pytest.raises(SessionExpired):
        worker.send(2)


@pytest.mark.parametrize("sequence", [1, 4, 100])
def test_a_gap_or_an_older_sequence_is_out_of_order_and_takes_nothing(worker: Worker, sequence):
    submit_tasks(5)
    worker.send(1)
    worker.send(2)
    with pytest.raises(OutOfOrder, match=f"sequence {sequence} came after 2"):
        worker.send(sequence)
    assert Lease.objects.count() == 2
    assert worker.send(3) is not None


def test_a_channel_starts_at_one(worker: Worker):
    submit_task()
    with pytest.raises(OutOfOrder):
        worker.send(2)
    assert Lease.objects.count() == 0


def test_channels_count_apart(worker: Worker):
    submit_tasks(2)
    one, other, again = worker.send(1, channel=0), worker.send(1, channel=1), worker.send(1, channel=1)
    assert one is not None and other is not None and again is not None
    assert one.assignments[0].task_id != other.assignments[0].task_id
    assert [a.owner for a in again.assignments] == [a.owner for a in other.assignments]


def test_without_recording_an_empty_reply_consumes_nothing(worker: Worker):
    assert worker.send(1, record_empty=False) is None
    assert Channel.objects.get().sequence == 0
    task = submit_task()
    reply = worker.send(1, record_empty=False)
    assert reply is not None and tasks_of(reply.assignments) == [task]
    assert Channel.objects.get().sequence == 1


def test_a_recorded_empty_reply_is_final(worker: Worker):
    assert worker.send(1) == Acquired()
    submit_task()
    assert worker.send(1) == Acquired()
    assert len(worker.send(2).assignments) == 1  # type: ignore[union-attr]


def test_a_repeat_settles_again_and_gets_the_same_answers(worker: Worker):
    first, _ = submit_tasks(2)
    assignment = worker.acquire_one()
    settlements = [settlement_of(assignment, Outcome.CRASHED)]
    reply = worker.send(2, 1, settlements=settlements)
    assert reply is not None
    assert [(s.status, s.consequence) for s in reply.settled] == [(SettleStatus.ACCEPTED, "retry")]
    again = worker.send(2, 1, settlements=settlements)
    assert again is not None and again.settled == reply.settled
    assert tasks_of(again.assignments) == tasks_of(reply.assignments)
    assert outcomes_of(first) == ["crashed"]
    assert_audit_clean()


def test_settling_alone_needs_no_capacity_and_is_recorded(worker: Worker):
    submit_tasks(2)
    assignment = worker.acquire_one()
    reply = worker.send(2, 0, settlements=[settlement_of(assignment)], record_empty=False)
    assert reply is not None and reply.assignments == () and len(reply.settled) == 1
    assert Channel.objects.get().sequence == 2


def test_work_given_back_in_the_same_commit_can_be_taken_again(worker: Worker):
    task = submit_task()
    assignment = worker.acquire_one()
    [again] = worker.acquire(1, settlements=[settlement_of(assignment, Outcome.INTERRUPTED)])
    assert (again.task_id, again.number) == (task, 2)
    assert_audit_clean()


def test_settlements_are_lost_with_a_refused_command(worker: Worker):
    task = submit_task()
    assignment = worker.acquire_one()
    with pytest.raises(OutOfOrder):
        worker.send(5, settlements=[settlement_of(assignment)])
    assert state_of(task) == "active"


@pytest.mark.parametrize(
    "change",
    [
        {"capacity": -1},
        {"capacity": CONCURRENCY_MAX + 1},
        {"sequence": 0},
        {"sequence": -1},
        {"channel": -1},
        {"channel": CHANNEL_MAX + 1},
        {"wait_seconds": -0.1},
        {"wait_seconds": WAIT_SECONDS_MAX + 0.1},
        {"wait_seconds": float("nan")},
    ],
)
def test_impossible_commands_are_refused(worker: Worker, change):
    command = replace(Acquire(session_id=worker.session_id, channel=0, sequence=1, capacity=1), **change)
    with pytest.raises(InvalidInput, match=f"acquire: {next(iter(change)).split('_')[0]}"):
        acquire(command, using=USING, search=DueSearch())
    assert not Channel.objects.exists()


def test_the_largest_channel_and_capacity_are_accepted(worker: Worker):
    assert worker.send(1, CONCURRENCY_MAX, channel=CHANNEL_MAX) == Acquired()


def test_an_unknown_session_is_not_found(db):
    command = Acquire(session_id=uuid4(), channel=0, sequence=1, capacity=1)
    with pytest.raises(NotFound):
        acquire(command, using=USING, search=DueSearch())


def test_a_channel_of_another_session_answers_nothing_of_this_one(worker: Worker):
    submit_task()
    worker.send(1)
    reply = Worker().send(1)
    assert reply == Acquired()


class TestMarks:
    """Where the search starts while it remembers the head: for a second at most."""

    @pytest.fixture
    def now(self, monkeypatch):
        moment = [0.0]
        monkeypatch.setattr("ledgence.operations.due.time.monotonic", lambda: moment[0])
        return moment

    @staticmethod
    def older(task):
        execute(
            "update ledgence_deliveryintent set available_at = available_at - interval '1 h' where task_id = %s", [task]
        )

    def test_older_work_that_was_committed_late_is_found_within_the_rescan(self, worker: Worker, now):
        tasks = submit_tasks(40)
        assert tasks_of(worker.acquire(2)) == tasks[:2]
        late = submit_task()
        self.older(late)
        now[0] += 1.0
        assert tasks_of(worker.acquire(1)) == [late]

    def test_urgent_work_is_found_within_the_rescan(self, worker: Worker, now):
        submit_tasks(40)
        worker.acquire(2)
        urgent = submit_task(priority=100)
        now[0] += 1.0
        assert tasks_of(worker.acquire(1)) == [urgent]

    def test_until_then_the_dead_head_is_not_read_again(self, worker: Worker, now):
        """The marks are used at all: what is older than they are waits for the rescan."""
        tasks = submit_tasks(40)
        worker.acquire(2)
        self.older(submit_task())
        now[0] += 0.5
        assert tasks_of(worker.acquire(2)) == tasks[2:4]

    def test_when_the_marks_find_too_little_the_whole_head_is_read_at_once(self, worker: Worker, now):
        submit_tasks(9)
        worker.acquire(2)
        late = submit_task()
        self.older(late)
        assert late in tasks_of(worker.acquire(8))

    def test_nothing_is_left_out_and_nothing_comes_twice(self, worker: Worker, now):
        tasks = [task for queue in "abc" for task in submit_tasks(17, queue=queue)]
        seen = []
        while taken := tasks_of(worker.acquire(3)):
            seen += taken
            now[0] += 0.3
        assert sorted(seen) == sorted(tasks)


class TestForeignHeads:
    """A queue that begins with programs which the session cannot run: they are passed over once a second."""

    @pytest.fixture
    def now(self, worker: Worker, monkeypatch):
        submit_tasks(50, program="tests.foreign")
        moment = [0.0]
        monkeypatch.setattr("ledgence.operations.due.time.monotonic", lambda: moment[0])
        assert worker.acquire(1) == []
        return moment

    def test_new_work_behind_it_is_found_at_once(self, worker: Worker, now):
        task = submit_task()
        urgent = submit_task(priority=100)
        elsewhere = submit_task(queue="other")
        assert tasks_of(worker.acquire(3)) == [urgent, task, elsewhere]

    def test_work_that_was_found_and_not_taken_is_found_again(self, worker: Worker, now):
        tasks = submit_tasks(3)
        now[0] += 1.0
        assert tasks_of(worker.acquire(1)) == tasks[:1]
        assert tasks_of(worker.acquire(2)) == tasks[1:]

    def test_older_work_that_was_committed_late_is_found_within_the_rescan(self, worker: Worker, now):
        late = submit_task()
        TestMarks.older(late)
        now[0] += 0.5
        # It is not read again until then.
        assert worker.acquire(1) == []
        now[0] += 0.5
        assert tasks_of(worker.acquire(1)) == [late]

    def test_the_marks_of_a_full_search_pass_over_it_too(self, worker: Worker, now):
        tasks = submit_tasks(40)
        assert tasks_of(worker.acquire(2)) == tasks[:2]
        TestMarks.older(submit_task())
        assert tasks_of(worker.acquire(2)) == tasks[2:4]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("held", [1, 3, 8, 12, 40])
def test_heads_that_others_hold_are_passed_over(held):
    worker = Worker()
    tasks = submit_tasks(held + 5)
    with Rival() as rival, rival.transaction():
        lock_intents(rival, tasks[:held])
        assert tasks_of(worker.acquire(2)) == tasks[held : held + 2]
    assert_audit_clean()


@pytest.mark.django_db(transaction=True)
def test_two_that_acquire_at_once_get_different_work_and_nobody_waits():
    one, other = Worker(), Worker()
    tasks = submit_tasks(6)
    with Rival() as rival:
        with transaction.atomic():
            first = one.acquire(3)
            second = rival.do(lambda: other.acquire(3))
        assert tasks_of(first) + tasks_of(second) == tasks
    assert_audit_clean()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("earlier", [0, 1])
def test_a_repeat_that_comes_while_the_command_runs_waits_and_gets_its_answer(earlier):
    worker = Worker()
    for sequence in range(1, earlier + 1):
        worker.send(sequence)
    submit_tasks(2)
    with Rival() as rival:
        with transaction.atomic():
            first = worker.send(earlier + 1)
            repeat = rival.begin(lambda: worker.send(earlier + 1))
            rival.wait_until_blocked(repeat)
        again = repeat.result(20)
    assert first is not None
    assert [a.owner for a in again.assignments] == [a.owner for a in first.assignments]
    assert Attempt.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_repeat_of_a_command_that_was_rolled_back_is_carried_out():
    worker = Worker()
    submit_task()
    with Rival() as rival:
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            worker.send(1)
            repeat = rival.begin(lambda: worker.send(1))
            rival.wait_until_blocked(repeat)
            raise ZeroDivisionError
        assert len(repeat.result(20).assignments) == 1
    assert Attempt.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_channel_that_stays_held_is_busy(settings):
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 0.05}
    worker = Worker()
    worker.send(1)
    with Rival() as rival, rival.transaction():
        rival.execute("select 1 from ledgence_channel for update")
        with pytest.raises(Busy, match="acquire"):
            worker.send(2)


@pytest.mark.django_db
def test_a_session_of_external_queues_alone_is_told_so_in_place_of_an_empty_answer():
    first, second = route("first", "here"), route("second", "there")
    submit_task(queue="first")
    worker = Worker(queues=["first", "second"])
    for _ in range(2):
        with pytest.raises(ExternalDispatchRequired, match="--delivery-config"):
            worker.send(1)
    # Nothing was recorded: the same command is answered when one of them is given back.
    give_back(second.id, operator(), using=USING)
    assert worker.acquire() == []
    give_back(first.id, operator(), using=USING)
    assert len(worker.acquire()) == 1
    assert_audit_clean()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "serves",
    [{"queues": ["broker", "plain"]}, {"queues": ["broker", "new"]}, {}, {"exclude_queues": ["plain"]}],
    ids=["integrated too", "not made yet", "all", "all but one"],
)
def test_a_session_that_may_get_other_work_gets_no_external_work_and_no_error(serves):
    route("broker")
    submit_task(queue="broker")
    execute(
        "insert into ledgence_queue (tenant, namespace, name, mode, paused_by, pause_reason) "
        "values ('default', 'default', 'plain', 'integrated', '', '')"
    )
    worker = Worker(**serves)
    assert worker.acquire() == []
    assert worker.acquire() == []


@pytest.mark.django_db
def test_an_external_session_settles_with_its_acquisitions_and_asks_for_nothing():
    route()
    task = submit_task()
    worker = Worker(queues=["default"])
    [assignment] = worker.claim((task, 1)).assignments
    reply = worker.send(2, 4, settlements=[settlement_of(assignment)])
    assert reply is not None and reply.assignments == ()
    assert state_of(task) == "succeeded"
    worker.sequence = 2
    assert worker.acquire(0) == []
