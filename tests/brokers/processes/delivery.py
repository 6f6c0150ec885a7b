"""How the work of a site's queues comes through a broker: physical queues, the way to them, publishers and workers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

from django.db.models import QuerySet
from django.db.models.functions import Now

from ledgence.handle import TaskHandle
from ledgence.models import Attempt, DeliveryEvent, DeliveryIntent, Queue, State, Task
from ledgence_project.elasticmq import ElasticMQ
from ledgence_project.embedded.environment import CHECKOUT
from ledgence_worker.delivery.sqs.options import SqsOptions
from tests.brokers.faults.broker_state import depth, put
from tests.brokers.faults.proxy import FaultProxy
from tests.faults.site import QUEUE, Site
from tests.faults.worker_process import WorkerProcess

PUBLISHER = (str(CHECKOUT / "manage.py"), "ledgence_publisher")
#: The other queue that is routed.
MAIL = "mail"
#: No user may ask for so little, and no test waits for what users may.
VISIBILITY_SECONDS = 3
TOLD = """[[routes]]
queue = "{queue}"
[routes.sqs]
queue_url = "{options.queue_url}"
region = "{options.region}"
endpoint_url = "{options.endpoint_url}"
local_credentials = true
# A call that a test holds up is not given up.
operation_timeout_seconds = 20
"""


class Delivery:
    """The queues ``zoo`` and ``mail`` of a site, through a broker; over a proxy, unless there is none."""

    def __init__(self, site: Site, broker: ElasticMQ, proxy: FaultProxy | None = None) -> None:
        self.site, self.broker = site, broker
        self._proxy = proxy
        self._names = {queue: f"{queue}-{uuid4().hex}" for queue in (QUEUE, MAIL)}
        self.options = {
            queue: SqsOptions(
                queue_url=broker.create_queue(name),
                region=broker.region,
                endpoint_url=broker.url if proxy is None else proxy.url,
                local_credentials=True,
            )
            for queue, name in self._names.items()
        }
        self._config = site.folder / "delivery.toml"
        self._config.write_text("".join(TOLD.format(queue=q, options=o) for q, o in self.options.items()))
        if proxy is not None:
            proxy.says["ReceiveMessage"] = {"VisibilityTimeout": VISIBILITY_SECONDS}

    @property
    def proxy(self) -> FaultProxy:
        assert self._proxy is not None, "nothing stands before the broker"
        return self._proxy

    def publisher(self, **variables: str) -> WorkerProcess:
        """Start a publisher, and return it when it publishes."""
        environment = self.site.environment(**variables)
        process = self.site.start(["--delivery-config", str(self._config)], environment, PUBLISHER)
        for queue in self._names:
            process.wait_for_log(f"publishing queue=default/default/{queue} ")
        return process

    def start_worker(self, *arguments: str, concurrency: int = 2, **variables: str) -> WorkerProcess:
        """Start a worker that receives, and do not wait for it."""
        own = ("--delivery-config", str(self._config), "--receive-wait", "1", "--grace", "5")
        return self.site.start_worker(*own, *arguments, concurrency=concurrency, **variables)

    def worker(self, *arguments: str, concurrency: int = 2, **variables: str) -> WorkerProcess:
        """Start a worker that receives, and return it when it does."""
        worker = self.start_worker(*arguments, concurrency=concurrency, **variables)
        worker.wait_until_started()
        return worker

    def submit(self, count: int, program: str = "echo", **options: Any) -> list[TaskHandle]:
        """Submit tasks in one transaction, so that one look of a publisher finds them all."""
        return self.site.submit_many(program, range(count), **options)

    @contextmanager
    def occupied(self, slots: int) -> Iterator[None]:
        """Let the workers receive nothing for the block: all their slots run something until its end."""
        gate = self.site.gate(uuid4().hex)
        tasks = self.site.submit_many("wait", [gate] * slots)
        try:
            for task in tasks:
                self.site.wait_for_start(task)
            # Each starts as soon as it is claimed, and its message goes a little later.
            self.site.wait_until(lambda: self.depth() == 0, "their messages to be acknowledged")
            yield
        finally:
            self.site.open(gate)

    def intents(self, tasks: Sequence[TaskHandle]) -> QuerySet[DeliveryIntent]:
        return DeliveryIntent.objects.using(self.site.alias).filter(pk__in=[task.id for task in tasks])

    def publications(self, tasks: Sequence[TaskHandle]) -> dict[UUID, UUID]:
        """Return the publication of each task that is queued."""
        rows = self.intents(tasks).exclude(publication_id=None).values_list("pk", "publication_id")
        return {task: publication for task, publication in rows if publication is not None}

    def claimed(self, tasks: Sequence[TaskHandle]) -> QuerySet[Attempt]:
        return Attempt.objects.using(self.site.alias).filter(task_id__in=[task.id for task in tasks])

    def events(self, tasks: Sequence[TaskHandle]) -> list[str]:
        """Return what was told of the tasks' deliveries, in order."""
        rows = DeliveryEvent.objects.using(self.site.alias).filter(task_id__in=[task.id for task in tasks])
        return list(rows.order_by("pk").values_list("kind", flat=True))

    def wait_until_confirmed(self, tasks: Sequence[TaskHandle]) -> None:
        rows = self.intents(tasks).filter(confirmed_at__isnull=False)
        self.site.wait_until(lambda: rows.count() == len(tasks), f"{len(tasks)} confirmed publications")

    def end_publisher_leases(self) -> None:
        """Let the time be over for which publishers hold what they send."""
        held = DeliveryIntent.objects.using(self.site.alias).exclude(publish_token=None)
        held.update(next_publish_at=Now())

    def end_repair_times(self, tasks: Sequence[TaskHandle]) -> None:
        """Let the time be over within which what was announced is to be claimed."""
        self.intents(tasks).exclude(confirmed_at=None).update(next_publish_at=Now())

    def depth(self, queue: str = QUEUE) -> int:
        """Return how many messages the broker has of a queue, hidden ones too."""
        return depth(self.broker, self.options[queue])

    def hidden(self) -> int:
        """Return how many messages somebody has received and not acknowledged."""
        name = "ApproximateNumberOfMessagesNotVisible"
        url = self.options[QUEUE].queue_url
        return int(self.broker.call("GetQueueAttributes", QueueUrl=url, AttributeNames=[name])["Attributes"][name])

    def purge(self) -> None:
        """Let all messages be gone, hidden ones too."""
        for options in self.options.values():
            self.broker.call("PurgeQueue", QueueUrl=options.queue_url)

    def put(self, *bodies: str) -> None:
        """Send messages as somebody else does."""
        put(self.broker, self.options[QUEUE], *bodies)

    def lose_queues(self) -> None:
        """Let the physical queues be gone, with all their messages."""
        for options in self.options.values():
            self.broker.delete_queue(options.queue_url)

    def make_queues(self) -> None:
        """Make them again, empty."""
        for name in self._names.values():
            self.broker.create_queue(name)

    @property
    def queue(self) -> Queue:
        return Queue.objects.using(self.site.alias).get(name=QUEUE)

    def wait_until_succeeded(self, tasks: Sequence[TaskHandle], *, attempts: int = 1, seconds: float = 60.0) -> None:
        """Wait until all tasks have succeeded, each with its last attempt of so many."""
        rows = Task.objects.using(self.site.alias).filter(pk__in=[task.id for task in tasks])
        open_rows = rows.filter(outcome=None)
        self.site.wait_until(lambda: not open_rows.exists(), f"{len(tasks)} tasks to end", seconds)
        assert set(rows.values_list("outcome", flat=True)) == {State.SUCCEEDED}
        ends = self.claimed(tasks).values_list("number", "outcome")
        assert sorted(ends.filter(outcome="succeeded")) == [(attempts, "succeeded")] * len(tasks)
        assert ends.count() == attempts * len(tasks)

    def problems(self) -> list[str]:
        """Wait until no message and no intent is left, and return what is wrong then."""
        problems = []
        try:
            self.site.wait_until(lambda: not any(map(self.depth, self._names)), "every message to be acknowledged")
        except AssertionError as error:
            problems.append(str(error))
        left = DeliveryIntent.objects.using(self.site.alias).values_list("pk", flat=True)
        return problems + [f"task {task} is still announced" for task in left] + self.site.problems()
