"""The publisher's loop: what is due reaches the broker whatever goes wrong, and nothing holds up what is behind it."""

import threading
from collections.abc import Sequence
from uuid import UUID

import pytest
from django.db import OperationalError, transaction

from ledgence.models import DeliveryEvent, DeliveryIntent, Publisher
from ledgence.operations.publish import Publications, RoutedQueue, SendResult
from ledgence.operations.routes import give_back
from ledgence.publishing import outage, publisher, row, senders
from ledgence.testing.delivery.faults import Call, Faults
from ledgence.testing.delivery.memory import MemoryBroker
from ledgence_worker.delivery.ports import Inspection, Publication, Published, PublishStatus
from ledgence_worker.delivery.reference import Reference, decode
from ledgence_worker.errors import BrokerUnavailable
from tests.faults.waiting import wait_until
from tests.ledger.actors import USING, Worker, assert_audit_clean, execute, operator, submit_task, submit_tasks
from tests.ledger.publishers import events_of, intent_of, make_publications_due, route
from tests.ledger.publishing.running import DEADLINE_SECONDS, publish_once, publishing, sent_to

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def queue() -> RoutedQueue:
    return route()


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker(address="there")


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an outage be probed often, and what is due be looked for."""
    monkeypatch.setattr(outage, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(outage, "LONGEST_SECONDS", 0.1)
    monkeypatch.setattr(publisher, "POLL_SECONDS", (0.02, 0.05))


def confirmed() -> int:
    return DeliveryIntent.objects.filter(confirmed_at__isnull=False, publish_token=None).count()


def wait_until_confirmed(count: int) -> None:
    wait_until(lambda: confirmed() == count, f"{count} confirmed publications")


class Scripted:
    """A broker that does what a test says with each batch; without words it takes it."""

    batch_max = 10

    def __init__(self) -> None:
        self.batches: list[list[UUID]] = []
        self.inspected = 0
        self.refused_bodies: set[str] = set()

    def inspect(self) -> Inspection:
        self.inspected += 1
        return Inspection(address="there")

    def publish(self, batch: Sequence[Publication]) -> Sequence[Published]:
        self.batches.append([decode(one.body).task for one in batch])
        self.on_publish(batch)
        return [
            Published(publication_id=one.publication_id, status=PublishStatus.CONFIRMED, message_id="m")
            for one in batch
        ]

    def on_publish(self, batch: Sequence[Publication]) -> None:
        """Do nothing."""

    def close(self) -> None:
        pass


class TestOnce:
    def test_everything_that_is_due_is_published_in_full_batches(self, queue: RoutedQueue, broker: MemoryBroker):
        tasks = submit_tasks(345)
        ended = publish_once(queue, broker.publisher())
        assert (ended.confirmed, ended.has_failed) == (345, False)
        assert sorted(sent_to(broker)) == tasks
        assert broker.counts.calls[Call.PUBLISH] == 35
        assert confirmed() == 345
        assert not Publisher.objects.exists()
        assert_audit_clean()

    def test_a_message_names_the_work_and_nothing_else(self, queue: RoutedQueue, broker: MemoryBroker):
        task = submit_task(data={"secret": 1})
        publication_id = intent_of(task).publication_id
        publish_once(queue, broker.publisher())
        assert publication_id is not None
        assert decode(broker.sent[0].body) == Reference(
            v=1,
            tenant="default",
            namespace="default",
            queue="default",
            task=task,
            generation=1,
            publication=publication_id,
        )
        assert broker.sent[0].publication_id == publication_id

    def test_nothing_that_is_due_is_no_failure(self, queue: RoutedQueue, broker: MemoryBroker):
        assert not publish_once(queue, broker.publisher()).has_failed

    def test_one_entry_that_is_refused_is_a_failure_and_the_others_are_sent(
        self, queue: RoutedQueue, broker: MemoryBroker
    ):
        tasks = submit_tasks(25)
        broker.refuse(tasks[3])
        ended = publish_once(queue, broker.publisher())
        assert (ended.confirmed, ended.has_failed) == (24, True)
        assert [kind for kind, *_ in events_of(tasks[3])] == ["refused"]

    def test_a_broker_that_is_down_ends_it_and_gives_the_rest_back(self, queue: RoutedQueue, broker: MemoryBroker):
        submit_tasks(200)
        broker.is_down = True
        assert publish_once(queue, broker.publisher()).has_failed
        assert not DeliveryIntent.objects.exclude(publish_token=None).exists()
        # Those that were tried: no more batches than there are senders.
        failed = DeliveryEvent.objects.filter(kind="failed").count()
        assert 0 < failed <= 10 * senders.SENDERS
        assert DeliveryIntent.objects.filter(publications=0).count() == 200 - failed

    def test_a_database_that_is_away_ends_it(self, queue: RoutedQueue, broker: MemoryBroker, monkeypatch):
        submit_task()

        def fail(*_: object) -> list[object]:
            raise OperationalError("gone")

        monkeypatch.setattr(Publications, "turn", fail)
        assert publish_once(queue, broker.publisher()).has_failed


class TestRunning:
    def test_a_hint_lets_it_look_at_once(self, queue: RoutedQueue, broker: MemoryBroker, monkeypatch):
        monkeypatch.setattr(publisher, "POLL_SECONDS", (60.0, 60.0))
        with publishing(queue, broker.publisher()) as running:
            wait_until(lambda: Publisher.objects.exists(), "the publisher's row")
            task = submit_task()
            running.hint()
            assert broker.wait_until(lambda b: len(b.sent) == 1)
        assert sent_to(broker) == [task]

    def test_without_hints_it_looks_once_a_second(self, queue: RoutedQueue, broker: MemoryBroker):
        with publishing(queue, broker.publisher()):
            wait_until(lambda: Publisher.objects.exists(), "the publisher's row")
            submit_task()
            assert broker.wait_until(lambda b: len(b.sent) == 1)

    def test_what_is_for_later_is_published_when_it_is_due(self, queue: RoutedQueue, broker: MemoryBroker):
        task = submit_task()
        execute("update ledgence_deliveryintent set next_publish_at = clock_timestamp() + interval '0.3 s'")
        with publishing(queue, broker.publisher()):
            assert broker.wait_until(lambda b: len(b.sent) == 1)
            wait_until_confirmed(1)
        intent = intent_of(task)
        assert intent.first_published_at is not None

    def test_two_publishers_of_one_queue_send_everything_once(self, queue: RoutedQueue, broker: MemoryBroker):
        tasks = submit_tasks(500)
        with publishing(queue, broker.publisher()), publishing(queue, broker.publisher()):
            assert Publisher.objects.count() <= 2
            wait_until_confirmed(500)
        assert sorted(sent_to(broker)) == tasks
        assert not DeliveryEvent.objects.exists()

    def test_what_nobody_claims_is_repaired(self, queue: RoutedQueue, broker: MemoryBroker):
        task = submit_task()
        with publishing(queue, broker.publisher()):
            wait_until_confirmed(1)
            broker.lose_all()
            make_publications_due()
            assert broker.wait_until(lambda b: len(b.sent) == 2)
            wait_until_confirmed(1)
        first, second = broker.sent
        assert first.publication_id != second.publication_id
        assert [(kind, epoch) for kind, epoch, _ in events_of(task)] == [("repair", 2)]

    def test_a_stop_finishes_what_is_being_sent_and_gives_the_rest_back(self, queue: RoutedQueue):
        broker = Scripted()
        is_sending, may_end = threading.Event(), threading.Event()

        def hold(batch: Sequence[Publication]) -> None:
            is_sending.set()
            assert may_end.wait(20)

        broker.on_publish = hold  # type: ignore[method-assign]
        submit_tasks(100)
        with publishing(queue, broker) as running:
            assert is_sending.wait(20)
            wait_until(lambda: len(broker.batches) == senders.SENDERS, "every sender sends")
            running.stop()
            may_end.set()
        assert len(broker.batches) == senders.SENDERS
        assert confirmed() == 10 * senders.SENDERS
        assert DeliveryIntent.objects.filter(publications=0, publish_token=None).count() == 100 - 10 * senders.SENDERS
        assert not DeliveryEvent.objects.exists()
        assert not Publisher.objects.exists()

    def test_what_is_not_begun_while_its_lease_is_fresh_is_not_sent(self, queue: RoutedQueue, monkeypatch):
        monkeypatch.setattr(publisher, "BEGIN_SECONDS", 0.0)
        recorded: list[PublishStatus | None] = []
        turn = Publications.turn

        def note(self: Publications, results: Sequence[SendResult], limit: int) -> object:
            recorded.extend(result.status for result in results)
            return turn(self, results, limit)

        monkeypatch.setattr(Publications, "turn", note)
        broker = Scripted()
        submit_tasks(3)
        with publishing(queue, broker):
            wait_until(lambda: len(recorded) >= 3, "they come back")
        assert broker.batches == []
        assert set(recorded) == {None}
        assert DeliveryIntent.objects.filter(publications=0, publish_token=None).count() == 3


class TestFaults:
    def test_a_poison_entry_holds_up_nobody(self, queue: RoutedQueue, broker: MemoryBroker, soon):
        poison = submit_tasks(30)
        for task in poison:
            broker.refuse(task)
        good = submit_tasks(30)
        with publishing(queue, broker.publisher()):
            wait_until_confirmed(30)
            wait_until(lambda: DeliveryEvent.objects.filter(kind="refused").count() >= 60, "refused twice")
        assert sorted(sent_to(broker)) == good
        assert min(DeliveryIntent.objects.filter(pk__in=poison).values_list("refusals", flat=True)) >= 1

    def test_an_entry_on_which_the_adapter_breaks_holds_up_nobody(self, queue: RoutedQueue, soon):
        tasks = submit_tasks(40)
        broker = Scripted()

        def break_on_the_first(batch: Sequence[Publication]) -> None:
            if str(tasks[0]) in "".join(one.body for one in batch):
                raise RuntimeError("surprise")

        broker.on_publish = break_on_the_first  # type: ignore[method-assign]
        with publishing(queue, broker):
            # They come again at moments of their own, and so without it.
            wait_until_confirmed(39)
        kinds = {kind for kind, *_ in events_of(tasks[0])}
        assert kinds == {"uncertain"}
        detail = DeliveryEvent.objects.filter(task_id=tasks[0])[0].detail
        assert detail == {"reason": "RuntimeError: surprise"}

    @pytest.mark.parametrize("answers", [0, 9, 11])
    def test_answers_that_do_not_match_are_uncertain(self, queue: RoutedQueue, answers: int, soon):
        submit_tasks(10)
        broker = Scripted()
        whole = broker.publish

        def publish(batch: Sequence[Publication]) -> Sequence[Published]:
            told = list(whole(batch))
            return (told * 2)[:answers]

        broker.publish = publish  # type: ignore[method-assign]
        publish_once(queue, broker)
        assert DeliveryEvent.objects.filter(kind="uncertain").count() == 10
        assert confirmed() == 0

    def test_a_lost_reply_lets_the_same_publication_be_sent_again(self, queue: RoutedQueue, broker: MemoryBroker, soon):
        task = submit_task()
        broker.lose_next_reply()
        with publishing(queue, broker.publisher()):
            wait_until(lambda: events_of(task) != [], "the event")
            make_publications_due()
            wait_until_confirmed(1)
        first, second = broker.sent
        assert first.publication_id == second.publication_id
        assert [kind for kind, *_ in events_of(task)] == ["uncertain"]

    def test_everything_arrives_though_much_fails(self, queue: RoutedQueue, soon):
        tasks = submit_tasks(200)
        broker = MemoryBroker(address="there", seed=3, faults=Faults(failed=0.3, uncertain=0.3))
        with publishing(queue, broker.publisher()):
            wait_until(lambda: _hurry() == 200, "all confirmed")
        assert set(sent_to(broker)) == set(tasks)
        assert max(DeliveryIntent.objects.values_list("refusals", flat=True)) == 0

    def test_throttling_exhausts_nothing(self, queue: RoutedQueue, soon):
        submit_tasks(30)
        broker = MemoryBroker(address="there")
        broker.is_throttled = True
        with publishing(queue, broker.publisher()) as running:
            wait_until(lambda: _hurry() == 0 and DeliveryEvent.objects.count() > 100, "many failures")
            assert set(DeliveryIntent.objects.values_list("refusals", flat=True)) == {0}
            broker.is_throttled = False
            wait_until(lambda: _hurry() == 30, "all confirmed")
            wait_until(lambda: running.ready_problems() == [], "it is well again")


def _hurry() -> int:
    """Let what failed be due at once, and return how many are confirmed."""
    execute(
        "update ledgence_deliveryintent set next_publish_at = clock_timestamp() "
        "where confirmed_at is null and publish_token is null"
    )
    return confirmed()


class TestOutage:
    def test_one_batch_now_and_then_is_tried_and_the_rest_is_left_alone(self, queue: RoutedQueue, monkeypatch):
        monkeypatch.setattr(outage, "FIRST_SECONDS", 0.05)
        submit_tasks(200)
        broker = Scripted()

        def refuse_to_answer(batch: Sequence[Publication]) -> None:
            raise BrokerUnavailable("nobody there")

        broker.on_publish = refuse_to_answer  # type: ignore[method-assign]
        with publishing(queue, broker) as running:
            wait_until(lambda: running._outage._tries >= 4, "some probes")
            tried = len(broker.batches)
            assert running.ready_problems() == [
                "the broker does not answer, queue default/default/default: nobody there"
            ]
        assert tried <= senders.SENDERS + 5
        assert DeliveryIntent.objects.filter(publications=0, refusals=0).count() >= 200 - 10 * (tried + 1)
        assert DeliveryEvent.objects.exclude(kind="failed").count() == 0

    def test_everything_flows_when_the_broker_is_back(self, queue: RoutedQueue, broker: MemoryBroker, soon):
        tasks = submit_tasks(300)
        broker.is_down = True
        with publishing(queue, broker.publisher()) as running:
            wait_until(lambda: running.ready_problems() != [], "it is not ready")
            broker.is_down = False
            wait_until(lambda: _hurry() == 300, "all confirmed")
            wait_until(lambda: running.ready_problems() == [], "it is ready")
        assert sorted(sent_to(broker)) == tasks

    def test_with_nothing_to_send_the_broker_is_asked_whether_it_is_there(self, queue: RoutedQueue, soon):
        submit_task()
        broker = Scripted()

        def refuse_to_answer(batch: Sequence[Publication]) -> None:
            raise BrokerUnavailable("nobody there")

        broker.on_publish = refuse_to_answer  # type: ignore[method-assign]
        with publishing(queue, broker) as running:
            wait_until(lambda: running._outage.is_on, "the outage")
            execute("delete from ledgence_deliveryintent")
            wait_until(lambda: not running._outage.is_on, "the broker has answered")
        assert broker.inspected >= 1

    def test_a_queue_that_is_gone_is_an_outage_until_it_is_there_again(
        self, queue: RoutedQueue, broker: MemoryBroker, soon
    ):
        submit_task()
        broker.is_missing = True
        with publishing(queue, broker.publisher()) as running:
            wait_until(lambda: running.ready_problems() != [], "it is not ready")
            assert "the queue there does not exist" in running.ready_problems()[0].lower()
            broker.is_missing = False
            wait_until(lambda: _hurry() == 1, "confirmed")

    def test_a_database_that_is_away_costs_nothing_but_time(
        self, queue: RoutedQueue, broker: MemoryBroker, monkeypatch
    ):
        monkeypatch.setattr(publisher, "FIRST_SECONDS", 0.02)
        turn = Publications.turn
        is_away = threading.Event()
        refused = threading.Event()

        def turn_if_there(self: Publications, *arguments: object) -> object:
            if is_away.is_set():
                refused.set()
                raise OperationalError("gone")
            return turn(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Publications, "turn", turn_if_there)
        with publishing(queue, broker.publisher()):
            is_away.set()
            task = submit_task()
            assert refused.wait(20)
            is_away.clear()
            wait_until_confirmed(1)
        assert sent_to(broker) == [task]
        assert events_of(task) == []

    def test_results_that_could_not_be_recorded_are_recorded_when_the_database_is_back(
        self, queue: RoutedQueue, monkeypatch
    ):
        monkeypatch.setattr(publisher, "FIRST_SECONDS", 0.02)
        broker = Scripted()
        turn = Publications.turn
        failures = 3

        def turn_if_there(self: Publications, results: Sequence[object], limit: int) -> object:
            nonlocal failures
            if results and failures:
                failures -= 1
                raise OperationalError("gone")
            return turn(self, results, limit)  # type: ignore[arg-type]

        monkeypatch.setattr(Publications, "turn", turn_if_there)
        submit_task()
        with publishing(queue, broker):
            wait_until_confirmed(1)
        assert (failures, len(broker.batches)) == (0, 1)

    def test_a_result_of_what_somebody_holds_is_recorded_when_it_is_free(self, queue: RoutedQueue):
        broker = Scripted()
        is_sending, may_end = threading.Event(), threading.Event()

        def hold(batch: Sequence[Publication]) -> None:
            is_sending.set()
            assert may_end.wait(20)

        broker.on_publish = hold  # type: ignore[method-assign]
        held, free = submit_tasks(2)
        with publishing(queue, broker):
            assert is_sending.wait(20)
            with transaction.atomic():
                execute("select * from ledgence_deliveryintent where task_id = %s for update", [held])
                may_end.set()
                wait_until_confirmed(1)
                assert intent_of(free).confirmed_at is not None
            wait_until_confirmed(2)
        assert len(broker.batches) == 1
        assert events_of(held) == []


class TestRow:
    @pytest.fixture(autouse=True)
    def often(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(row, "ROW_SECONDS", 0.02)

    def test_it_says_who_publishes_and_is_gone_at_the_end(self, queue: RoutedQueue, broker: MemoryBroker):
        with publishing(queue, broker.publisher()):
            wait_until(lambda: Publisher.objects.live().exists(), "the row")
            found = Publisher.objects.get()
            assert (found.queue_id, found.failure) == (queue.id, "")
            assert found.pid > 0 and found.host and found.version
            assert found.confirmed_at is not None
            wait_until(lambda: Publisher.objects.get().turned_at > found.turned_at, "a turn")
            assert Publisher.objects.get().started_at == found.started_at
        assert not Publisher.objects.exists()

    def test_it_tells_what_goes_wrong_and_when_the_broker_has_answered_last(
        self, queue: RoutedQueue, broker: MemoryBroker, soon
    ):
        with publishing(queue, broker.publisher()):
            wait_until(lambda: Publisher.objects.exists(), "the row")
            broker.is_down = True
            submit_task()
            wait_until(lambda: Publisher.objects.get().failure != "", "the failure")
            failing = Publisher.objects.get()
            assert failing.failure == "The broker of queue there is down."
            broker.is_down = False
            wait_until(lambda: Publisher.objects.get().failure == "", "its end")
            answering = Publisher.objects.get()
            assert failing.confirmed_at is not None and answering.confirmed_at is not None
            assert answering.confirmed_at > failing.confirmed_at

    def test_a_row_that_another_found_silent_is_made_again(self, queue: RoutedQueue, broker: MemoryBroker):
        with publishing(queue, broker.publisher()):
            wait_until(lambda: Publisher.objects.exists(), "the row")
            Publisher.objects.all().delete()
            wait_until(lambda: Publisher.objects.live().exists(), "the row again")

    def test_those_that_are_silent_for_an_hour_are_forgotten_at_a_start(self, queue: RoutedQueue, broker: MemoryBroker):
        other = route("other", "elsewhere")
        for queue_id in (queue.id, queue.id, other.id):
            execute(
                "insert into ledgence_publisher (id, queue_id, host, pid, version, started_at, turned_at) "
                "values (gen_random_uuid(), %s, 'h', 1, '1', now() - interval '1 d', now() - interval '61 min')",
                [queue_id],
            )
        execute(
            "update ledgence_publisher set turned_at = now() - interval '59 min' "
            "where id = (select id from ledgence_publisher where queue_id = %s limit 1)",
            [queue.id],
        )
        publish_once(queue, broker.publisher())
        assert sorted(Publisher.objects.values_list("queue_id", flat=True)) == sorted([queue.id, other.id])

    def test_a_publisher_whose_route_was_taken_away_says_so(self, queue: RoutedQueue, broker: MemoryBroker, caplog):
        with publishing(queue, broker.publisher()) as running:
            wait_until(lambda: Publisher.objects.exists(), "the row")
            give_back(queue.id, operator(), using=USING)
            wait_until(lambda: running.ready_problems() != [], "it is not ready")
            assert running.ready_problems() == ["the route is gone, queue default/default/default to there"]
            task = submit_task()
            worker = Worker()
            assignment = worker.acquire_one()
            assert assignment.task_id == task
            worker.settle(assignment)
            route()
            wait_until(lambda: running.ready_problems() == [], "it is routed again")
        assert caplog.text.count("queue is not routed here any more") == 1


def test_a_publisher_that_does_not_turn_is_told(queue: RoutedQueue, broker: MemoryBroker, monkeypatch):
    with publishing(queue, broker.publisher()) as running:
        wait_until(lambda: Publisher.objects.exists(), "the row")
        assert running.live_problems() == running.ready_problems() == []
        monkeypatch.setattr(publisher, "TURN_SECONDS_MAX", -1.0)
        monkeypatch.setattr(publisher, "SILENCE_SECONDS_MAX", -1.0)
        [stuck], [silent] = running.live_problems(), running.ready_problems()
    assert stuck.startswith("the publisher has not turned for 0 s")
    assert silent.startswith("the publisher has had no success for 0 s")


def test_recording_overlaps_with_sending(queue: RoutedQueue):
    """While a broker takes its time over some batches, those before them are recorded, and more are leased."""
    broker, answer = Scripted(), threading.Event()

    def hold(batch: Sequence[Publication]) -> None:
        if decode(batch[0].body).task != broker.batches[0][0]:
            assert answer.wait(DEADLINE_SECONDS)

    broker.on_publish = hold  # type: ignore[method-assign]
    submit_tasks(200)
    with publishing(queue, broker):
        wait_until(lambda: confirmed() == broker.batch_max, "the first batch to be recorded while others are out")
        answer.set()
        wait_until(lambda: confirmed() == 200, "all the others")
