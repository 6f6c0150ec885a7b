"""One database, publisher and workers for all tests of a module; after each test what holds after every fault."""

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import override_settings

from ledgence_project.elasticmq import ElasticMQ
from ledgence_worker.stopping import ExitCode
from tests.brokers.faults.proxy import FaultProxy, fault_proxy
from tests.brokers.processes.delivery import Delivery
from tests.conftest import address_of, delete_every_row
from tests.faults.commit_proxy import CommitProxy
from tests.faults.conftest import checked
from tests.faults.http_proxy import HttpProxy
from tests.faults.remote_site import RemoteSite, TaskServer
from tests.faults.site import LEASE_SECONDS, Site
from tests.faults.worker_process import WorkerProcess

#: Workers reach the task service in the database, or over HTTP and see no database.
both_ways, over_database, over_http = (
    pytest.mark.parametrize("way", ways, indirect=True, scope="module")
    for ways in (["database", "http"], ["database"], ["http"])
)


@pytest.fixture(scope="module")
def way(request: pytest.FixtureRequest) -> str:
    """How workers reach the task service; a module that does not say it uses one way only."""
    return str(getattr(request, "param", "database"))


@pytest.fixture(scope="module")
def transactional_db(django_db_setup: None, django_db_blocker: Any, way: str) -> Iterator[None]:
    """Empty the database after a module, and not after each test. Its name tells pytest-django who needs one."""
    with django_db_blocker.unblock():
        yield
        delete_every_row()
        connection.close()


@pytest.fixture(scope="module")
def ledger(transactional_db: None) -> Iterator[str]:
    """The address of the test database, whose rows all tests of a module share."""
    with override_settings(LEDGENCE={**settings.LEDGENCE, "LEASE_SECONDS": LEASE_SECONDS}):
        yield address_of(connection)


@pytest.fixture(scope="module")
def http_proxy(ledger: str) -> Iterator[HttpProxy]:
    """A proxy before a task server."""
    environment = {"LEDGENCE_LEASE_SECONDS": str(LEASE_SECONDS)}
    with closing(TaskServer(ledger, environment)) as server, closing(HttpProxy(server.port)) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def shared_site(
    request: pytest.FixtureRequest, ledger: str, way: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp(way)
    if way == "database":
        made = Site("default", ledger, folder, LEASE_SECONDS)
    else:
        url = request.getfixturevalue("http_proxy").url
        made = RemoteSite("default", ledger, folder, LEASE_SECONDS, url)
    with checked(made) as site:
        yield site


@pytest.fixture(scope="module")
def shared_proxy(elasticmq: ElasticMQ) -> Iterator[FaultProxy]:
    with fault_proxy(elasticmq.port) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def shared_delivery(shared_site: Site, elasticmq: ElasticMQ, shared_proxy: FaultProxy) -> Delivery:
    return Delivery(shared_site, elasticmq, shared_proxy)


@pytest.fixture(scope="module")
def publisher(shared_delivery: Delivery) -> WorkerProcess:
    return shared_delivery.publisher()


@pytest.fixture
def delivery(shared_delivery: Delivery) -> Iterator[Delivery]:
    """What all tests of a module share; a test's own processes are ended with it, and are to end clean."""
    shared = len(shared_delivery.site.workers)
    yield shared_delivery
    own = [process for process in shared_delivery.site.workers[shared:] if process.is_running]
    shared_delivery.proxy.calm()
    problems = shared_delivery.problems()
    for process in own:
        process.send(signal.SIGCONT)
        process.stop_soon()
    problems += [f"{process.tail()}" for process in own if process.wait() != ExitCode.CLEAN]
    assert not problems, "\n".join(problems)


@pytest.fixture
def commits(ledger: str) -> Iterator[CommitProxy]:
    """A proxy before the database, for processes that get ``through()`` as their address."""
    told = connection.settings_dict
    server = f"{told['HOST']}/.s.PGSQL.{told['PORT'] or 5432}" if told["HOST"].startswith("/") else int(told["PORT"])
    with closing(CommitProxy(server)) as proxy:
        yield proxy


@pytest.fixture
def through(commits: CommitProxy) -> str:
    """The address of the database through the proxy, which reads along."""
    told = connection.settings_dict
    login = f"{told['USER']}:{told['PASSWORD']}" if told["PASSWORD"] else told["USER"]
    return f"postgresql://{login}@127.0.0.1:{commits.port}/{told['NAME']}?sslmode=disable&gssencmode=disable"
