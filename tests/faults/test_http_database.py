"""A database that goes away under a task service: that says so, its workers wait, and nothing is lost."""

import contextlib
import json
import random
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgence.models import State
from ledgence_worker.stopping import ExitCode
from tests.faults.commit_proxy import CommitProxy
from tests.faults.conftest import checked, database_alias
from tests.faults.remote_site import RemoteSite, TaskServer
from tests.servers import Server

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture
def own_remote(
    server: Server,
    django_db_blocker: Any,
    shared_settings: None,
    tmp_path: Path,
    lease_seconds: float,
    server_environment: dict[str, str],
) -> Iterator[RemoteSite]:
    """A site before a task server on the tests' own PostgreSQL, which this process reaches under the alias "own"."""
    url = server.url(server.make_database())
    with (
        django_db_blocker.unblock(),
        database_alias("own", url),
        contextlib.closing(TaskServer(url, server_environment)) as task_server,
        checked(RemoteSite("own", url, tmp_path, lease_seconds, task_server.url)) as made,
    ):
        yield made
        server.start()
        made.reconnect()


def readiness(site: RemoteSite) -> tuple[int, list[str]]:
    try:
        with urllib.request.urlopen(f"{site.server_url}/ledgence/v1/health/ready", timeout=40) as reply:  # noqa: S310
            status, body = reply.status, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            status, body = error.code, error.read()
    return status, json.loads(body).get("reasons", [])


def test_it_is_told_and_the_same_settlement_is_accepted_afterwards(own_remote: RemoteSite, server: Server) -> None:
    assert readiness(own_remote)[0] == 503
    housekeeping = own_remote.start_housekeeping()
    own_remote.wait_until(lambda: readiness(own_remote) == (200, []), "the task service to be ready")
    worker = own_remote.worker(concurrency=2)
    task, active = own_remote.submit("wait", own_remote.gate("first")), own_remote.submit("wait", own_remote.gate())
    for one in (task, active):
        own_remote.wait_for_start(one)
    server.crash()
    own_remote.open(own_remote.gate("first"))
    worker.wait_for_log("task service not available command=acquire")
    status, [reason] = readiness(own_remote)
    assert (status, reason.partition(":")[0]) == (503, "database")
    server.start()
    own_remote.reconnect()
    assert own_remote.wait_for_end(task) is State.SUCCEEDED
    own_remote.open(own_remote.gate())
    assert own_remote.wait_for_end(active) is State.SUCCEEDED
    assert [own_remote.ends(one) for one in (task, active)] == [[(1, "succeeded")]] * 2
    # Each of its threads learns for itself that its connection is gone.
    own_remote.wait_until(lambda: readiness(own_remote) == (200, []), "the task service to be ready again")
    assert [one.stop() for one in (worker, housekeeping)] == [ExitCode.CLEAN] * 2


def test_crashes_under_load_cost_time_and_nothing_else(own_remote: RemoteSite, server: Server) -> None:
    tasks = [own_remote.submit("echo", number) for number in range(400)]
    worker = own_remote.worker(concurrency=4)
    for progress in (50, 200):
        own_remote.wait_for_starts(progress)
        server.crash()
        server.start()
        own_remote.reconnect()
    for task in tasks:
        assert own_remote.wait_for_end(task) is State.SUCCEEDED
        assert own_remote.ends(task) == [(1, "succeeded")]
    assert worker.stop() == ExitCode.CLEAN


def test_commits_that_are_lost_beneath_it_are_repeated_by_its_workers(
    own_remote: RemoteSite, server: Server, proxy: CommitProxy, server_environment: dict[str, str]
) -> None:
    through = own_remote.url.replace(str(server.port), str(proxy.port))
    with contextlib.closing(TaskServer(through, server_environment)) as task_server:
        own_remote.server_url = task_server.url
        tasks = [own_remote.submit("echo", number) for number in range(400)]
        # Always the same chances; what they meet depends on the threads all the same.
        proxy.lose_often(0.05, random.Random(7))
        workers = [own_remote.start_worker(concurrency=2) for _ in range(2)]
        for task in tasks:
            assert own_remote.wait_for_end(task) is State.SUCCEEDED
            assert own_remote.ends(task) == [(1, "succeeded")]
        assert proxy.losses > 3
        assert [worker.stop() for worker in workers] == [ExitCode.CLEAN] * 2
