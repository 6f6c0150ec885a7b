"""A shop's evening on which everything goes wrong at once: examples of each trouble that the admin's pages show."""

import math
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

import ledgence
from ledgence import NewTask
from ledgence.models import DeliveryEvent, DeliveryIntent, Lease, OperatorAction, Publisher, Queue, Rollup, Task
from ledgence.models.rollup import WAIT_BOUNDS
from ledgence.operations.actions import Operator
from ledgence.operations.cancel import cancel
from ledgence.operations.operate import requeue
from ledgence.operations.queues import pause
from ledgence.operations.routes import QueueName, activate
from ledgence.tokens import issue
from ledgence_project.demo.actors import PretendedWorker, raised, shift, stretch
from ledgence_worker.claims import RefusedMessage
from ledgence_worker.programs import Backoff
from ledgence_worker.protocol import Outcome, Report

DESTINATION = "arn:aws:sqs:eu-central-1:123456789012:partners"
DENIED = "AccessDenied: not authorized to perform sqs:SendMessage on resource partners"
MINUTE = timedelta(minutes=1)
#: Seconds for which an attempt of the storm waits before the next one.
SOON = Backoff(initial_seconds=20.0, factor=1.0, maximum_seconds=20.0, jitter=0.5)

REFUSED = raised(
    "smtplib.SMTPRecipientsRefused",
    "{'nobody@example.com': (550, b'No such user')}",
    module="mails/programs.py",
    line=31,
    statement="server.send_message(message)",
)
UNREACHABLE = raised(
    "requests.exceptions.ConnectionError",
    "HTTPSConnectionPool(host='stock.example.com', port=443): Max retries exceeded",
    module="sync/programs.py",
    line=18,
    statement="reply = session.get(url, timeout=5)",
)
KILLED = Report(exit_status=-9, output="reading orders-2026-11.csv\nrow 1,200,000 of 4,100,000\n", seconds=41.0)

#: How programs end that do not succeed.
ENDS = {"sync.inventory": (Outcome.FAILED, UNREACHABLE), "orders.import": (Outcome.CRASHED, KILLED)}


class Incidents:
    """Fills an empty ledger, and plays the workers that are still alive."""

    def __init__(self, using: str) -> None:
        self.using = using
        served = [("mail.send", "3"), ("reports.monthly", "2"), ("orders.import", "1"), ("sync.inventory", "5")]
        queues = ("mail", "reports", "orders", "sync")
        self._mail = PretendedWorker("mail-1", queues=queues, programs=served, using=using)
        # Of the new release only the old program is there.
        self._billing = PretendedWorker(
            "billing-1", queues=["billing"], programs=[("billing.charge", "1")], using=using
        )

    def make(self) -> None:
        """Make every trouble."""
        self._work_as_usual()
        self._lose_a_worker()
        self._poison()
        self._storm()
        self._pause_reports()
        self._deploy_wrongly()
        self._break_the_broker()
        self._leave_some_running()
        self._count()
        issue(name="image workers", roles=["work"], tenant="default", namespace="default", using=self.using)

    def play(self) -> None:
        """Let the live workers go on for a moment: they renew, and end what is due as before."""
        for worker in (self._mail, self._billing):
            worker.live()
        self._submit(1, "mail.send", "3", "mail", data={"to": "ada@example.com", "template": "receipt"})
        for item in self._mail.take(8):
            self._mail.end(item, *ENDS.get(item.program, ()))

    def _submit(self, count: int, program: str, version: str, queue: str, **options: object) -> list[UUID]:
        data = options.pop("data", None) or {"order": 4711}
        task = NewTask(program=program, version=version, queue=queue, data=data, **options)  # type: ignore[arg-type]
        return [handle.id for handle in ledgence.submit_many([task] * count)]

    def _work_as_usual(self) -> None:
        """Mails of two hours, of which some were refused; one of them was sent again by hand."""
        tasks = self._submit(60, "mail.send", "3", "mail", data={"to": "ada@example.com", "template": "receipt"})
        items = self._mail.take(8)
        refused: list[UUID] = []
        place = 0
        while items:
            for item in items:
                is_refused = place % 10 == 7
                self._mail.end(item, *((Outcome.FAILED, REFUSED) if is_refused else ()))
                refused += [item.task_id] if is_refused else []
                shift([item.task_id], (len(tasks) - place) * 2 * MINUTE, using=self.using)
                place += 1
            items = self._mail.take(8)
        requeue({refused[0]: 1}, self._by("sam", "the customer mended the address"), using=self.using)
        [again] = self._mail.take(1)
        self._mail.end(again)
        shift([again.task_id], 9 * MINUTE, using=self.using)
        unwanted = self._submit(2, "mail.send", "3", "mail", data={"to": "all@example.com", "template": "campaign"})
        cancel(unwanted, using=self.using)

    def _lose_a_worker(self) -> None:
        """A worker that was killed six minutes ago, and no process does the housekeeping."""
        tasks = self._submit(5, "images.resize", "1", "images", data={"image": "s3://shop/4711.jpg"}, timeout=None)
        worker = PretendedWorker("images-1", queues=["images"], programs=[("images.resize", "1")], using=self.using)
        lost = [item.task_id for item in worker.take(3)]
        shift(lost, 7 * MINUTE, using=self.using)
        worker.fall_silent(6 * MINUTE)
        Lease.objects.using(self.using).filter(pk__in=lost).update(expires_at=F("expires_at") - 6 * MINUTE)
        self._be_due(set(tasks) - set(lost), 7 * MINUTE)

    def _poison(self) -> None:
        """A file that is too large for the machine: every attempt is killed."""
        [task] = self._submit(1, "orders.import", "1", "orders", data={"file": "orders-2026-11.csv"})
        for _ in range(3):
            DeliveryIntent.objects.using(self.using).filter(pk=task).update(available_at=Now())
            [item] = self._mail.take(1)
            self._mail.end(item, Outcome.CRASHED, KILLED)
        stretch(task, timedelta(seconds=41), using=self.using)
        shift([task], 14 * MINUTE, using=self.using)

    def _storm(self) -> None:
        """A neighbour that does not answer: everything that asks it is tried again, and again."""
        options = {"max_attempts": 50, "retry_on": ["requests.exceptions.ConnectionError"], "backoff": SOON}
        self._submit(16, "sync.inventory", "5", "sync", data={"shop": "berlin"}, **options)
        for _ in range(2):
            for _ in range(2):
                for item in self._mail.take(8):
                    self._mail.end(item, Outcome.FAILED, UNREACHABLE)
            DeliveryIntent.objects.using(self.using).filter(queue__name="sync").update(available_at=Now())
        DeliveryIntent.objects.using(self.using).filter(queue__name="sync").update(available_at=Now() + MINUTE / 3)

    def _pause_reports(self) -> None:
        tasks = self._submit(40, "reports.monthly", "2", "reports", data={"month": "2026-10"})
        later = timezone.now() + timedelta(hours=6)
        self._submit(5, "reports.monthly", "2", "reports", data={"month": "2026-11"}, run_after=later)
        queue = Queue.objects.using(self.using).get(name="reports")
        pause([queue.pk], self._by("ines", "the reporting database is being moved, OPS-214"), using=self.using)
        Queue.objects.using(self.using).filter(pk=queue.pk).update(paused_at=F("paused_at") - 25 * MINUTE)
        OperatorAction.objects.using(self.using).filter(kind="pause").update(acted_at=F("acted_at") - 25 * MINUTE)
        self._be_due(tasks, 25 * MINUTE)

    def _deploy_wrongly(self) -> None:
        """Submitters have the new release, and no worker has it."""
        tasks = self._submit(15, "billing.charge", "2", "billing", data={"invoice": 990}, priority=10)
        self._be_due(tasks, 38 * MINUTE)

    def _break_the_broker(self) -> None:
        """A publisher that has lost its rights and then its life, and messages of somebody else's."""
        name = QueueName(tenant="default", namespace="default", queue="partners")
        [queue] = activate({name: DESTINATION}, self._by("route", "delivery of partners"), using=self.using).values()
        tasks = self._submit(18, "partners.notify", "1", "partners", data={"partner": "acme"})
        self._be_due(tasks, 11 * MINUTE)
        intents = DeliveryIntent.objects.using(self.using)
        sent = {"first_published_at": Now() - 10 * MINUTE, "last_published_at": Now() - 8 * MINUTE}
        late = Now() - 8 * MINUTE
        intents.filter(pk__in=tasks).update(next_publish_at=late)
        intents.filter(pk__in=tasks[:4]).update(refusals=3, publications=3, **sent)
        self._be_refused(tasks[:4], 8 * MINUTE)
        intents.filter(pk__in=tasks[4:7]).update(
            confirmed_at=late, publications=2, next_publish_at=Now() + MINUTE, **sent
        )
        Publisher.objects.using(self.using).create(
            id=uuid4(),
            queue_id=queue,
            host="publisher-1.internal",
            pid=88,
            version="2026.11.2",
            started_at=Now() - 300 * MINUTE,
            turned_at=late,
            confirmed_at=Now() - 11 * MINUTE,
            failure=DENIED,
        )
        worker = PretendedWorker(
            "partners-1", queues=["partners"], programs=[("partners.notify", "1")], using=self.using
        )
        worker.quarantine("partners", list(_strange_messages()))
        worker.fall_silent(5 * MINUTE)

    def _be_refused(self, tasks: Iterable[UUID], ago: timedelta) -> None:
        """Record the broker's reasons, as a publisher does with what it is refused."""
        DeliveryEvent.objects.using(self.using).bulk_create(
            DeliveryEvent(
                task_id=task,
                generation=1,
                kind=DeliveryEvent.Kind.REFUSED,
                epoch=1,
                publication_id=uuid4(),
                detail={"reason": DENIED},
                happened_at=timezone.now() - ago - before * MINUTE,
            )
            for task in tasks
            for before in (2, 1, 0)
        )

    def _leave_some_running(self) -> None:
        tasks = self._submit(3, "mail.send", "3", "mail", data={"to": "grace@example.com", "template": "invoice"})
        self._mail.take(3)
        cancel(tasks[:1], using=self.using)

    def _count(self) -> None:
        """Write the minutes' counts of a day, as workers would have."""
        queues = {queue.name: queue for queue in Queue.objects.using(self.using)}
        now = timezone.now().replace(second=0, microsecond=0)
        Rollup.objects.using(self.using).bulk_create(_counts(queues, now))

    def _be_due(self, tasks: Iterable[UUID], ago: timedelta) -> None:
        """Let queued tasks have been submitted so long ago, and be due since."""
        ids = list(tasks)
        DeliveryIntent.objects.using(self.using).filter(pk__in=ids).update(available_at=F("available_at") - ago)
        Task.objects.using(self.using).filter(pk__in=ids).update(submitted_at=F("submitted_at") - ago)

    def _by(self, name: str, reason: str) -> Operator:
        return Operator(action_id=uuid4(), name=name, reason=reason)


def _strange_messages() -> Iterator[RefusedMessage]:
    yield RefusedMessage(
        message_id="5fea7756-0ea4-451a-a703-a558b933e274",
        reason="malformed",
        detail="not strict JSON: line 1, column 1",
        body="<order><script>alert('hello')</script></order>",
    )
    yield RefusedMessage(
        message_id="a1b2c3d4-0000-4000-8000-9e107d9d372b",
        reason="foreign",
        detail="a reference of namespace staging",
        body='{"v": 1, "tenant": "default", "namespace": "staging", "queue": "partners"}',
    )


def _counts(queues: dict[str, Queue], now: datetime) -> Iterator[Rollup]:
    """Yield a day of mails, which swell towards noon, and of inventories, which fail since a few minutes."""
    for minutes in range(2, 24 * 60):
        at, wave = now - minutes * MINUTE, math.sin(minutes / 90) + math.sin(minutes / 17) / 4
        sent = int(180 + 60 * wave)
        yield _rollup(queues["mail"], at, claimed=sent, succeeded=sent - 3, failed=1 + minutes % 3, waits=(sent, 0))
        stormy = 45 if minutes < 12 else 1
        is_late = minutes < 20
        counts = {"claimed": 20 + stormy, "succeeded": 0 if is_late else 20, "retried": stormy}
        yield _rollup(queues["sync"], at, waits=(20, stormy) if is_late else (20, 0), **counts)


def _rollup(queue: Queue, at: datetime, *, waits: tuple[int, int], **counts: int) -> Rollup:
    """Return a minute's counts with so many short waits and so many long ones."""
    short, long = waits
    buckets = [0] * (len(WAIT_BOUNDS) + 1)
    buckets[1], buckets[3], buckets[8] = short - short // 5, short // 5, long
    return Rollup(queue=queue, minute=at, waits="{" + ",".join(map(str, buckets)) + "}", **counts)
