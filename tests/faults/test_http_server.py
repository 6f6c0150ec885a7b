"""A task service that is killed, stopped and started again under its workers: everything ends once."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import psutil
import pytest

from ledgence.handle import TaskHandle
from ledgence.models import State
from ledgence_worker.http_service import HttpTaskService
from ledgence_worker.protocol import Acquire, Acquired, CatalogueEntry, OpenSession
from ledgence_worker.stopping import ExitCode
from tests.faults.http_proxy import HttpProxy
from tests.faults.remote_site import RemoteSite, TaskServer
from tests.faults.site import QUEUE

pytestmark = [pytest.mark.process, pytest.mark.slow]

#: What a restart may cost a wait that is answered at once; a wait lasts twenty times as long.
AT_ONCE_SECONDS = 1.0


@pytest.fixture(autouse=True)
def running(task_server: TaskServer) -> Iterator[None]:
    """Leave the server running, whatever a test has done to it."""
    yield
    task_server.start()


class Load:
    """Work in every state: much that is queued, one attempt that is active all the while, ends that come in between."""

    def __init__(self, site: RemoteSite, count: int) -> None:
        self.site = site
        self.active = site.submit("wait", site.gate())
        self.quick = [site.submit("echo", number) for number in range(count)]

    def reach(self, progress: int) -> None:
        self.site.wait_for_starts(progress)

    def finish(self) -> None:
        """Let everything end, and check that each attempt ran once and none was lost."""
        self.site.open(self.site.gate())
        tasks: list[TaskHandle] = [self.active, *self.quick]
        for task in tasks:
            assert self.site.wait_for_end(task) is State.SUCCEEDED
            # The leases are longer than the outages, so that no attempt had to be given up.
            assert self.site.ends(task) == [(1, "succeeded")]


def test_its_processes_are_killed_and_replaced(remote: RemoteSite, task_server: TaskServer) -> None:
    load = Load(remote, 600)
    worker = remote.worker(concurrency=4)
    for progress in (50, 250, 400):
        load.reach(progress)
        for process in psutil.Process(task_server.process.pid).children():
            process.kill()
    load.finish()
    assert worker.stop() == ExitCode.CLEAN


def test_it_is_killed_as_a_whole_and_started_again(remote: RemoteSite, task_server: TaskServer) -> None:
    load = Load(remote, 600)
    workers = [remote.worker(concurrency=2) for _ in range(2)]
    for progress in (50, 300):
        load.reach(progress)
        task_server.kill()
        for worker in workers:
            worker.wait_for_log("task service not available command=acquire")
        task_server.start()
    load.finish()
    assert [worker.stop() for worker in workers] == [ExitCode.CLEAN] * 2


def test_it_is_restarted_as_an_update_does(remote: RemoteSite, task_server: TaskServer) -> None:
    load = Load(remote, 600)
    workers = [remote.worker(concurrency=2) for _ in range(2)]
    for progress in (50, 300):
        load.reach(progress)
        task_server.end()
        task_server.start()
    load.finish()
    assert [worker.stop() for worker in workers] == [ExitCode.CLEAN] * 2


def test_a_worker_that_starts_meanwhile_waits_for_it(remote: RemoteSite, task_server: TaskServer) -> None:
    task = remote.submit("echo")
    task_server.kill()
    worker = remote.start_worker()
    worker.wait_for_log("task service not available command=open_session")
    task_server.start()
    assert remote.wait_for_end(task) is State.SUCCEEDED
    assert worker.stop() == ExitCode.CLEAN


def test_a_worker_is_stopped_while_it_is_away(remote: RemoteSite, task_server: TaskServer) -> None:
    task_server.kill()
    worker = remote.start_worker()
    worker.wait_for_log("task service not available command=open_session")
    assert worker.stop() == ExitCode.CLEAN


def test_waits_are_answered_at_once_when_it_stops(
    remote: RemoteSite, task_server: TaskServer, http_proxy: HttpProxy
) -> None:
    catalogue = (CatalogueEntry(name="plain-echo", version="1", entry_point="tests.faults.zoo.plain:echo"),)
    command = OpenSession(
        session_id=uuid4(),
        name="waits",
        host="here",
        pid=1,
        version="1",
        concurrency=1,
        tenant="default",
        namespace="default",
        queues=(QUEUE,),
        catalogue=catalogue,
    )
    replies: list[tuple[Acquired, float]] = []
    with closing(HttpTaskService(http_proxy.url, remote.token)) as service:
        service.open_session(command)

        def wait(channel: int) -> None:
            asked = Acquire(
                session_id=command.session_id,
                channel=channel,
                sequence=1,
                capacity=1,
                wait_seconds=20 * AT_ONCE_SECONDS,
            )
            replies.append((service.acquire(asked), time.monotonic()))

        waits = [threading.Thread(target=wait, args=(channel,)) for channel in range(10)]
        for thread in waits:
            thread.start()
        remote.wait_until(lambda: http_proxy.seen["acquire"] == len(waits), "the waits to begin")
        began = time.monotonic()
        task_server.end()
        for thread in waits:
            thread.join()
    assert [reply.assignments for reply, _ in replies] == [()] * len(waits)
    assert max(at - began for _, at in replies) < AT_ONCE_SECONDS
