"""Measurements through a broker: ElasticMQ on this machine, one publisher, one worker, and boto3 alone beside them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import boto3
import psutil

import ledgence
from ledgence.models import DeliveryIntent, Queue
from ledgence.operations.queues import pause, resume
from ledgence.operations.routes import give_back
from ledgence_project.demo.drain import MANAGE, drain, latencies, operator, run_worker, wait_until_done, warm_up
from ledgence_project.demo.programs import clock
from ledgence_project.demo.submission import PAYLOAD, submit_bulk
from ledgence_project.elasticmq import ElasticMQ

#: Messages of the broker's own limit, in batches as large as the adapter's, each as large as a reference.
CYCLED: Final = 5000
BATCH: Final = 10
BODY: Final = "x" * 230
REGION: Final = "elasticmq"
ROUTE: Final = """[[routes]]
queue = "bench"
[routes.sqs]
queue_url = "{url}"
region = "{region}"
endpoint_url = "{endpoint}"
local_credentials = true
"""
START_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFigures:
    """The figures through a broker. Rates are tasks, or messages, a second."""

    broker_limit_per_s: float
    publish_per_s: float
    drain_per_s: float
    latency_ms: dict[str, float]
    cpu_us_per_task: dict[str, float]


def measure(*, using: str, tasks: int, slots: int, say: Callable[[str], object]) -> BrokerFigures:
    """Measure everything through ElasticMQ, in the scratch database that ``using`` points at. No other worker runs."""
    queue = Queue.objects.using(using).get(name="bench")
    with ElasticMQ() as broker, TemporaryDirectory(prefix="ledgence-bench-") as folder:
        say("sending, receiving and deleting with boto3 alone")
        limit = broker_limit(broker)
        route = ROUTE.format(url=broker.create_queue("bench"), region=REGION, endpoint=broker.url)
        config = Path(folder, "delivery.toml")
        config.write_text(route)
        with run_publisher(config) as publisher:
            _wait(lambda: Queue.objects.using(using).get(pk=queue.pk).mode == Queue.Mode.EXTERNAL, publisher)
            say("publishing")
            published = publish(tasks, queue, publisher, using=using)
            with run_worker(slots, "--delivery-config", str(config)) as worker:
                say("draining through the broker")
                wait_until_done(worker, using=using)
                warm_up(slots, worker, using=using)
                others = {"publisher": publisher, "broker": psutil.Process(broker.pid)}
                drained, cpu = drain(tasks, worker, using=using, others=others)
                say("latency through the broker")
                latency = latencies(lambda: ledgence.submit(clock, PAYLOAD).id, worker, using=using)
    give_back(queue.pk, operator(), using=using)
    return BrokerFigures(
        broker_limit_per_s=round(limit),
        publish_per_s=round(published),
        drain_per_s=round(drained),
        latency_ms=latency,
        cpu_us_per_task=cpu,
    )


def broker_limit(broker: ElasticMQ) -> float:
    """Send, receive and delete messages in batches, one after the other, and return the messages a second."""
    client = boto3.client(
        "sqs",
        region_name=REGION,
        endpoint_url=broker.url,
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106 - it protects nothing
    )
    url = broker.create_queue("limit")
    entries = [{"Id": str(number), "MessageBody": BODY} for number in range(BATCH)]
    done = 0
    began = time.perf_counter()
    while done < CYCLED:
        client.send_message_batch(QueueUrl=url, Entries=entries)
        received = client.receive_message(QueueUrl=url, MaxNumberOfMessages=BATCH).get("Messages", [])
        handles = [{"Id": str(place), "ReceiptHandle": one["ReceiptHandle"]} for place, one in enumerate(received)]
        client.delete_message_batch(QueueUrl=url, Entries=handles)
        done += len(handles)
    return done / (time.perf_counter() - began)


def publish(tasks: int, queue: Queue, publisher: psutil.Process, *, using: str) -> float:
    """Measure from the moment a paused queue is resumed to the last confirmation, without a worker."""
    pause([queue.pk], operator(), using=using)
    submit_bulk(tasks, using=using)
    began = time.perf_counter()
    resume([queue.pk], operator(), using=using)
    _wait(lambda: not DeliveryIntent.objects.using(using).filter(confirmed_at=None).exists(), publisher, seconds=600)
    return tasks / (time.perf_counter() - began)


@contextmanager
def run_publisher(config: Path) -> Iterator[psutil.Process]:
    """Run one publisher."""
    command = [sys.executable, str(MANAGE), "ledgence_publisher", "--delivery-config", str(config)]
    process = subprocess.Popen(command, env=os.environ | {"LOG_LEVEL": "WARNING"})
    try:
        yield psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def _wait(is_done: Callable[[], bool], process: psutil.Process, *, seconds: float = START_SECONDS) -> None:
    """Look twenty times a second. Fails when the process is gone, or takes too long."""
    deadline = time.monotonic() + seconds
    while not is_done():
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            raise RuntimeError(f"The benchmark's publisher, process {process.pid}, ended: see its output.")
        if time.monotonic() > deadline:
            raise RuntimeError(f"The benchmark's publisher, process {process.pid}, is not done after {seconds:.0f} s.")
        time.sleep(0.05)
