"""Publication: what is leased to whom and when, and what the publisher's word changes."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import transaction

from ledgence import sql
from ledgence.models import DeliveryEvent, DeliveryIntent
from ledgence.operations import publish
from ledgence.operations.cancel import cancel
from ledgence.operations.operate import republish, requeue
from ledgence.operations.publish import LATE, LEASE_SECONDS, LeasedPublication, RoutedQueue
from ledgence.operations.queues import pause, resume
from ledgence.operations.routes import give_back
from ledgence_worker.claims import ClaimStatus
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import (
    USING,
    Worker,
    assert_audit_clean,
    attempts_of,
    execute,
    operator,
    statuses_of,
    submit_task,
    submit_tasks,
)
from tests.ledger.frozen import MICROSECOND, FrozenClock
from tests.ledger.publishers import (
    CONFIRMED,
    FAILED,
    REFUSED,
    UNCERTAIN,
    PublisherActor,
    events_of,
    intent_of,
    make_publications_due,
    route,
    snapshot_of,
    tasks_of,
)
from tests.ledger.rivals import Rival

LEASE = timedelta(seconds=LEASE_SECONDS)


@pytest.fixture
def queue(db) -> RoutedQueue:
    return route()


@pytest.fixture
def publisher(queue: RoutedQueue) -> PublisherActor:
    return PublisherActor(queue)


def seconds_until(task, clock: FrozenClock) -> float:
    """Return in how many seconds a task is published next."""
    next_publish_at = intent_of(task).next_publish_at
    assert next_publish_at is not None
    left: timedelta = next_publish_at - clock.now
    return left.total_seconds()


class TestLease:
    def test_what_is_due_is_leased_for_half_a_minute(self, clock: FrozenClock, publisher: PublisherActor):
        task = submit_task()
        before = intent_of(task)
        leased = publisher.lease_one()
        assert (leased.task_id, leased.generation, leased.publication_id) == (task, 1, before.publication_id)
        after = intent_of(task)
        assert (after.publish_token, after.next_publish_at) == (leased.token, clock.now + LEASE)
        assert (after.publications, after.epoch, after.publication_id) == (1, 1, before.publication_id)
        assert after.first_published_at == after.last_published_at == clock.now
        assert events_of(task) == []
        assert_audit_clean()

    def test_nobody_else_gets_it_until_the_lease_ends(self, clock: FrozenClock, publisher: PublisherActor):
        task = submit_task()
        publisher.lease()
        clock.advance(seconds=LEASE_SECONDS)
        clock.set(clock.now - MICROSECOND)
        assert PublisherActor(publisher.queue).lease() == []
        clock.set(clock.now + MICROSECOND)
        assert tasks_of(PublisherActor(publisher.queue).lease()) == [task]

    def test_a_publisher_that_died_leaves_the_same_publication_and_an_uncertain_event(
        self, clock: FrozenClock, publisher: PublisherActor
    ):
        task = submit_task()
        first = publisher.lease_one()
        clock.advance(seconds=LEASE_SECONDS)
        second = PublisherActor(publisher.queue).lease_one()
        assert (second.publication_id, second.generation) == (first.publication_id, 1)
        assert second.token != first.token
        assert events_of(task) == [("uncertain", 1, first.publication_id)]
        intent = intent_of(task)
        assert (intent.publications, intent.epoch) == (2, 1)
        assert intent.first_published_at == clock.now - LEASE and intent.last_published_at == clock.now

    def test_what_nobody_claimed_in_time_is_repaired_with_a_new_publication(
        self, clock: FrozenClock, publisher: PublisherActor
    ):
        task = submit_task()
        [first] = publisher.publish()
        clock.advance(seconds=seconds_until(task, clock))
        second = PublisherActor(publisher.queue).lease_one()
        assert second.publication_id != first.publication_id
        assert second.generation == first.generation
        assert events_of(task) == [("repair", 2, second.publication_id)]
        intent = intent_of(task)
        assert (intent.epoch, intent.publication_id, intent.confirmed_at) == (2, second.publication_id, None)
        assert intent.publications == 2

    def test_the_longest_due_come_first_and_then_the_smallest_ids(self, clock: FrozenClock, publisher: PublisherActor):
        late, *equal = submit_tasks(3)
        older = submit_task()
        execute(
            "update ledgence_deliveryintent set next_publish_at = next_publish_at + interval '1 s' where task_id = %s",
            [late],
        )
        execute(
            "update ledgence_deliveryintent set next_publish_at = next_publish_at - interval '1 s' where task_id = %s",
            [older],
        )
        clock.advance(seconds=1)
        assert tasks_of(publisher.lease(2)) == [older, equal[0]]
        assert tasks_of(publisher.lease(2)) == [equal[1], late]

    @pytest.mark.parametrize(("offset", "count"), [(-1, 0), (0, 1)])
    def test_what_is_for_later_is_due_to_the_microsecond(
        self, clock: FrozenClock, publisher: PublisherActor, offset, count
    ):
        run_after = clock.now + timedelta(hours=1)
        submit_task(run_after=run_after)
        clock.set(run_after + offset * MICROSECOND)
        assert len(publisher.lease()) == count

    def test_a_retry_is_due_when_its_backoff_is_over(self, clock: FrozenClock, publisher: PublisherActor):
        task = submit_task()
        publisher.publish()
        worker = Worker()
        [assignment] = worker.claim((task, 1)).assignments
        worker.settle(assignment, Outcome.CRASHED)
        assert publisher.lease() == []
        clock.advance(seconds=seconds_until(task, clock))
        leased = PublisherActor(publisher.queue).lease_one()
        assert (leased.task_id, leased.generation) == (task, 2)
        assert intent_of(task).publications == 1
        assert_audit_clean()

    def test_nothing_is_leased_of_another_queue(self, publisher: PublisherActor):
        route("other", "elsewhere")
        submit_task(queue="other")
        submit_task(queue="integrated")
        assert publisher.lease() == []

    def test_nothing_is_leased_while_the_queue_is_paused(self, publisher: PublisherActor):
        task = submit_task()
        pause([publisher.queue.id], operator(), using=USING)
        before = snapshot_of(task)
        assert publisher.lease() == []
        assert snapshot_of(task) == before
        resume([publisher.queue.id], operator(), using=USING)
        assert tasks_of(PublisherActor(publisher.queue).lease()) == [task]

    def test_nothing_is_leased_by_a_publisher_to_where_the_queue_is_not_routed_any_more(
        self, publisher: PublisherActor
    ):
        give_back(publisher.queue.id, operator(), using=USING)
        route(destination="elsewhere")
        task = submit_task()
        assert publisher.lease() == []
        assert intent_of(task).publications == 0

    def test_nothing_is_leased_of_a_queue_that_was_given_back(self, publisher: PublisherActor):
        task = submit_task()
        give_back(publisher.queue.id, operator(), using=USING)
        assert publisher.lease() == []
        assert [a.task_id for a in Worker().acquire(2)] == [task]

    def test_a_limit_leases_no_more(self, publisher: PublisherActor):
        tasks = submit_tasks(5)
        assert [tasks_of(publisher.lease(2)) for _ in range(3)] == [tasks[:2], tasks[2:4], tasks[4:]]


class TestRecord:
    def test_a_confirmation_is_repaired_after_a_minute_unless_claimed(
        self, clock: FrozenClock, publisher: PublisherActor
    ):
        task = submit_task()
        leased = publisher.lease_one()
        clock.advance(seconds=1)
        publisher.record(leased)
        intent = intent_of(task)
        assert (intent.publish_token, intent.confirmed_at, intent.publications) == (None, clock.now, 1)
        assert 54 <= seconds_until(task, clock) <= 66
        assert events_of(task) == []
        assert_audit_clean()

    @pytest.mark.parametrize(
        ("epoch", "seconds"), [(1, 60), (2, 120), (6, 1920), (7, 3600), (8, 3600), (1000, 3600), (2**31 - 2, 3600)]
    )
    def test_the_repair_time_doubles_with_each_epoch_to_an_hour(
        self, clock: FrozenClock, publisher: PublisherActor, epoch, seconds
    ):
        task = submit_task()
        leased = publisher.lease_one()
        execute("update ledgence_deliveryintent set epoch = %s", [epoch])
        publisher.record(leased)
        assert 0.9 * seconds <= seconds_until(task, clock) <= 1.1 * seconds

    def test_a_refusal_backs_off_from_a_second_to_an_hour_until_it_is_confirmed(
        self, clock: FrozenClock, publisher: PublisherActor
    ):
        task = submit_task()
        for turn in range(14):
            leased = publisher.lease_one()
            publisher.record(leased, status=REFUSED, detail="too strange")
            assert intent_of(task).refusals == turn + 1
            assert 0.9 * min(3600, 2**turn) <= seconds_until(task, clock) <= 1.1 * min(3600, 2**turn)
            clock.advance(seconds=seconds_until(task, clock))
        assert events_of(task) == [("refused", 1, leased.publication_id)] * 14
        assert DeliveryEvent.objects.order_by("-pk")[0].detail == {"reason": "too strange"}
        publisher.publish()
        assert intent_of(task).refusals == 0
        assert_audit_clean()

    def test_refusals_are_counted_as_far_as_the_column_goes(self, clock: FrozenClock, publisher: PublisherActor):
        task = submit_task()
        execute("update ledgence_deliveryintent set refusals = 32767")
        publisher.record(publisher.lease_one(), status=REFUSED)
        assert intent_of(task).refusals == 32767
        assert seconds_until(task, clock) <= 3960

    @pytest.mark.parametrize("status", [FAILED, UNCERTAIN])
    def test_what_failed_or_is_uncertain_is_sent_again_as_it_was_within_seconds(
        self, clock: FrozenClock, publisher: PublisherActor, status
    ):
        task = submit_task()
        first = publisher.lease_one()
        for turn in range(20):
            publisher.record(first, status=status, detail="busy")
            intent = intent_of(task)
            assert (intent.publish_token, intent.confirmed_at, intent.refusals) == (None, None, 0)
            assert 1 <= seconds_until(task, clock) <= 5
            clock.advance(seconds=5)
            again = publisher.lease_one()
            assert (again.publication_id, again.generation) == (first.publication_id, 1)
            assert events_of(task) == [(status, 1, first.publication_id)] * (turn + 1)
            first = again

    def test_what_was_not_sent_is_due_at_once_as_if_it_had_not_been_leased(
        self, clock: FrozenClock, publisher: PublisherActor
    ):
        task = submit_task()
        before = snapshot_of(task)
        publisher.record(publisher.lease_one(), status=None)
        assert snapshot_of(task) == before
        assert events_of(task) == []

    def test_what_was_sent_before_stays_sent(self, clock: FrozenClock, publisher: PublisherActor):
        task = submit_task()
        began = clock.now
        publisher.record(publisher.lease_one(), status=FAILED)
        clock.advance(seconds=5)
        publisher.record(publisher.lease_one(), status=None)
        intent = intent_of(task)
        assert (intent.publications, intent.first_published_at, intent.last_published_at) == (1, began, clock.now)

    def test_each_entry_gets_its_own_result(self, clock: FrozenClock, publisher: PublisherActor):
        tasks = submit_tasks(4)
        leased = publisher.lease()
        statuses = [CONFIRMED, REFUSED, FAILED, UNCERTAIN]
        publisher.publications.turn(
            [publish.SendResult(leased=one, status=status) for one, status in zip(leased, statuses, strict=True)], 0
        )
        assert [intent_of(task).confirmed_at is not None for task in tasks] == [True, False, False, False]
        kinds = [[kind for kind, *_ in events_of(task)] for task in tasks]
        assert kinds == [[], ["refused"], ["failed"], ["uncertain"]]

    def test_results_are_recorded_and_more_is_leased_in_one_commit(self, publisher: PublisherActor):
        first, second = submit_tasks(2)
        leased = publisher.lease(1)
        with transaction.atomic():
            turn = publisher.publications.turn([publish.SendResult(leased=leased[0], status=CONFIRMED)], 1)
            transaction.set_rollback(True)
        assert (tasks_of(leased), tasks_of(turn.leased)) == ([first], [second])
        assert intent_of(first).confirmed_at is None and intent_of(second).publish_token is None

    @pytest.mark.parametrize("detail", ["\0", "\ud800", "ж" * 5000, "'\"\\{}"], ids=["nul", "half", "long", "quoted"])
    def test_a_detail_that_no_column_takes_is_kept_as_far_as_it_can_be(self, publisher: PublisherActor, detail):
        submit_task()
        publisher.record(publisher.lease_one(), status=REFUSED, detail=detail)
        kept = DeliveryEvent.objects.get().detail["reason"]
        assert kept == detail.replace("\0", "\\0").replace("\ud800", "\\ud800")[:1024]


class TestStaleWords:
    """Between the lease and its record anything may happen to the intent: the publisher's word is none then."""

    @pytest.fixture
    def leased(self, publisher: PublisherActor) -> LeasedPublication:
        submit_task()
        return publisher.lease_one()

    def test_of_a_publication_that_another_publisher_has_leased_since(
        self, publisher: PublisherActor, leased: LeasedPublication
    ):
        make_publications_due()
        other = PublisherActor(publisher.queue)
        again = other.lease_one()
        before = snapshot_of(leased.task_id)
        publisher.record(leased, status=REFUSED)
        assert snapshot_of(leased.task_id) == before
        other.record(again)
        assert intent_of(leased.task_id).confirmed_at is not None
        assert [kind for kind, *_ in events_of(leased.task_id)] == ["uncertain"]

    def test_of_what_was_recorded_before(self, publisher: PublisherActor, leased: LeasedPublication):
        publisher.record(leased)
        before = snapshot_of(leased.task_id)
        publisher.record(leased)
        publisher.record(leased, status=FAILED)
        assert snapshot_of(leased.task_id) == before
        assert events_of(leased.task_id) == []

    @pytest.mark.parametrize("field", ["publication_id", "token", "task_id"])
    def test_of_another_publication_token_or_task(self, publisher: PublisherActor, leased: LeasedPublication, field):
        other = submit_task()
        before = snapshot_of(leased.task_id), snapshot_of(other)
        values = {name: getattr(leased, name) for name in ("task_id", "generation", "publication_id", "token")}
        publisher.record(LeasedPublication(**values | {field: other if field == "task_id" else uuid4()}))
        assert (snapshot_of(leased.task_id), snapshot_of(other)) == before

    def test_of_work_that_was_claimed(self, publisher: PublisherActor, leased: LeasedPublication):
        Worker().claim((leased.task_id, 1))
        publisher.record(leased, status=REFUSED)
        assert not DeliveryIntent.objects.exists() and events_of(leased.task_id) == []
        [attempt] = attempts_of(leased.task_id)
        assert (attempt.publications, attempt.publication_id) == (1, leased.publication_id)
        assert attempt.first_published_at is not None and attempt.destination == "there"
        assert_audit_clean()

    def test_of_a_generation_that_is_over(self, publisher: PublisherActor, leased: LeasedPublication):
        worker = Worker()
        [assignment] = worker.claim((leased.task_id, 1)).assignments
        worker.settle(assignment, Outcome.INTERRUPTED)
        before = snapshot_of(leased.task_id)
        assert before["publications"] == 0 and before["publication_id"] != leased.publication_id
        publisher.record(leased)
        assert snapshot_of(leased.task_id) == before
        assert_audit_clean()

    def test_of_a_task_that_was_cancelled_and_requeued(self, publisher: PublisherActor, leased: LeasedPublication):
        cancel([leased.task_id], using=USING)
        publisher.record(leased)
        requeue({leased.task_id: 1}, operator(), using=USING)
        before = snapshot_of(leased.task_id)
        publisher.record(leased, status=UNCERTAIN)
        assert snapshot_of(leased.task_id) == before
        assert PublisherActor(publisher.queue).lease_one().generation == 2
        assert_audit_clean()

    def test_of_what_an_operator_republished(self, publisher: PublisherActor, leased: LeasedPublication):
        execute("update ledgence_deliveryintent set refusals = 7")
        republish([leased.task_id], operator(), using=USING)
        before = snapshot_of(leased.task_id)
        assert (before["publish_token"], before["confirmed_at"], before["refusals"]) == (None, None, 0)
        publisher.record(leased)
        assert snapshot_of(leased.task_id) == before
        again = PublisherActor(publisher.queue).lease_one()
        assert again.publication_id not in (None, leased.publication_id)
        assert [(kind, epoch) for kind, epoch, _ in events_of(leased.task_id)] == [("republish", 2)]

    def test_of_what_was_deferred(self, publisher: PublisherActor, leased: LeasedPublication):
        pause([publisher.queue.id], operator(), using=USING)
        assert set(statuses_of(Worker().claim((leased.task_id, 1))).values()) == {ClaimStatus.DEFERRED}
        before = snapshot_of(leased.task_id)
        publisher.record(leased)
        assert snapshot_of(leased.task_id) == before


def test_what_was_deferred_is_published_again_after_the_resume(queue: RoutedQueue):
    task = submit_task()
    [first] = PublisherActor(queue).publish()
    pause([queue.id], operator(), using=USING)
    worker = Worker()
    assert set(statuses_of(worker.claim((task, 1))).values()) == {ClaimStatus.DEFERRED}
    assert PublisherActor(queue).lease() == []
    resume([queue.id], operator(), using=USING)
    [second] = PublisherActor(queue).publish()
    assert second.publication_id != first.publication_id
    assert events_of(task) == [("deferred", 2, second.publication_id)]
    assert set(statuses_of(worker.claim((task, 1))).values()) == {ClaimStatus.CLAIMED}
    assert_audit_clean()


def test_a_republished_task_for_later_is_not_published_before_it_is_due(clock: FrozenClock, queue: RoutedQueue):
    run_after = clock.now + timedelta(hours=1)
    task = submit_task(run_after=run_after)
    republish([task], operator(), using=USING)
    assert PublisherActor(queue).lease() == []
    clock.set(run_after)
    assert tasks_of(PublisherActor(queue).lease()) == [task]


@pytest.mark.django_db(transaction=True)
class TestTwoAtOnce:
    def test_two_publishers_lease_different_work_and_nobody_waits(self):
        queue = route()
        tasks = submit_tasks(6)
        with Rival() as rival, rival.transaction():
            theirs = rival.do(lambda: PublisherActor(queue).lease(4))
            mine = PublisherActor(queue).lease(4)
        assert (tasks_of(theirs), tasks_of(mine)) == (tasks[:4], tasks[4:])
        assert events_of(tasks[0]) == []

    def test_what_a_publisher_that_was_rolled_back_had_leased_is_leased_again(self):
        queue = route()
        task = submit_task()
        with Rival() as rival, pytest.raises(RuntimeError), rival.transaction():
            assert tasks_of(rival.do(lambda: PublisherActor(queue).lease())) == [task]
            raise RuntimeError
        assert tasks_of(PublisherActor(queue).lease()) == [task]
        assert (intent_of(task).publications, events_of(task)) == (1, [])

    def test_work_that_is_being_claimed_is_neither_leased_nor_recorded_and_nobody_waits(self):
        queue = route()
        first, second = submit_tasks(2)
        publisher = PublisherActor(queue)
        [leased] = publisher.lease(1)
        worker = Worker()
        with Rival() as rival, rival.transaction():
            rival.do(lambda: worker.claim((first, 1), (second, 1)))
            assert publisher.lease() == []
            assert publisher.record(leased, status=REFUSED) == [first]
        # The claim was committed meanwhile.
        assert publisher.record(leased, status=REFUSED) == []
        assert not DeliveryIntent.objects.exists() and events_of(first) == []
        assert_audit_clean()

    def test_what_somebody_holds_in_vain_is_told_and_recorded_later(self):
        queue = route()
        held, free = submit_tasks(2)
        publisher = PublisherActor(queue)
        leased = publisher.lease()
        with Rival() as rival, rival.transaction():
            rival.execute("select * from ledgence_deliveryintent where task_id = %s for update", [held])
            assert publisher.record(*leased) == [held]
            assert intent_of(free).confirmed_at is not None
        assert publisher.record(*leased) == []
        assert intent_of(held).confirmed_at is not None


class TestMarks:
    """An old snapshot keeps dead rows at the head: a publisher does not read them again and again."""

    @pytest.fixture
    def process_time(self, monkeypatch: pytest.MonkeyPatch):
        class Clock:
            now = 1000.0

            def monotonic(self) -> float:
                return self.now

        clock = Clock()
        monkeypatch.setattr(publish, "time", clock)
        return clock

    @pytest.fixture
    def looked_from(self, monkeypatch: pytest.MonkeyPatch):
        """Where each search began."""
        began: list[object] = []
        send = sql.send

        def note(name, using, parameters):
            if name == "lease_publications":
                began.append(parameters["since"])
            return send(name, using, parameters)

        monkeypatch.setattr(sql, "send", note)
        return began

    def test_a_full_search_is_continued_where_it_ended(
        self, process_time, looked_from, clock: FrozenClock, publisher: PublisherActor
    ):
        tasks = submit_tasks(3)
        first = intent_of(tasks[1]).next_publish_at
        assert [tasks_of(publisher.lease(2)) for _ in "12"] == [tasks[:2], tasks[2:]]
        assert looked_from == [None, first]

    def test_after_a_search_that_found_everything_only_what_is_new_is_looked_at(
        self, process_time, looked_from, clock: FrozenClock, publisher: PublisherActor
    ):
        publisher.lease()
        clock.advance(seconds=3)
        task = submit_task()
        assert tasks_of(publisher.lease()) == [task]
        assert looked_from == [None, clock.now - timedelta(seconds=3) - LATE]

    def test_what_was_committed_late_is_found_within_a_second(
        self, process_time, clock: FrozenClock, publisher: PublisherActor
    ):
        publisher.lease()
        task = submit_task()
        late = clock.now - 2 * LATE
        execute("update ledgence_deliveryintent set next_publish_at = %s", [late])
        assert publisher.lease() == []
        process_time.now += 1
        assert tasks_of(publisher.lease()) == [task]


class TestNext:
    def test_the_next_is_told_if_it_is_soon(self, clock: FrozenClock, publisher: PublisherActor):
        assert publisher.publications.seconds_to_next(1) is None
        submit_task(run_after=clock.now + timedelta(seconds=1))
        submit_task(run_after=clock.now + timedelta(seconds=0.5))
        assert publisher.publications.seconds_to_next(1) == 0.5
        assert publisher.publications.seconds_to_next(0.4) is None

    def test_what_is_due_is_left_to_the_lease(self, clock: FrozenClock, publisher: PublisherActor):
        submit_task()
        assert publisher.publications.seconds_to_next(1) is None

    def test_nothing_is_told_of_a_queue_that_is_paused_or_not_routed_here(
        self, clock: FrozenClock, publisher: PublisherActor
    ):
        submit_task(run_after=clock.now + timedelta(seconds=0.5))
        pause([publisher.queue.id], operator(), using=USING)
        assert publisher.publications.seconds_to_next(1) is None
        resume([publisher.queue.id], operator(), using=USING)
        give_back(publisher.queue.id, operator(), using=USING)
        assert publisher.publications.seconds_to_next(1) is None
