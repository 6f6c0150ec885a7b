"""The scenes of the fault tests: on the database that all tests share, and on a server of the tests' own."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from django.db import connection, connections

from tests.conftest import address_of
from tests.faults.commit_proxy import CommitProxy
from tests.faults.http_proxy import HttpProxy
from tests.faults.remote_site import RemoteSite, TaskServer
from tests.faults.site import LEASE_SECONDS, Site
from tests.servers import Server, own_server


@pytest.fixture
def lease_seconds() -> float:
    return LEASE_SECONDS


@pytest.fixture
def shared_settings(settings, lease_seconds: float) -> None:
    """Let this process, which cancels and audits, and its workers agree on the length of a lease."""
    settings.LEDGENCE = {**settings.LEDGENCE, "LEASE_SECONDS": lease_seconds}


@contextlib.contextmanager
def checked[S: Site](site: S) -> Iterator[S]:
    """Check after the test what holds after every fault; a failure of the test itself is told first."""
    try:
        yield site
    finally:
        problems = site.check()
    assert not problems, "\n".join(problems)


@pytest.fixture
def site(database_url: str, shared_settings: None, tmp_path: Path, lease_seconds: float) -> Iterator[Site]:
    with checked(Site("default", database_url, tmp_path, lease_seconds)) as made:
        yield made


@pytest.fixture
def old_snapshot(database_url: str) -> Iterator[None]:
    """Hold a snapshot open, which keeps the server from removing dead rows."""
    with psycopg.connect(database_url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM ledgence_task")
        yield


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that only the fault tests use, so that they may crash it."""
    with own_server(tmp_path_factory.mktemp("own")) as made:
        yield made


@pytest.fixture
def own_site(
    server: Server, django_db_blocker, shared_settings: None, tmp_path: Path, lease_seconds: float
) -> Iterator[Site]:
    """A site on the tests' own server, which this process reaches under the alias "own"."""
    url = server.url(server.make_database())
    with (
        django_db_blocker.unblock(),
        database_alias("own", url),
        checked(Site("own", url, tmp_path, lease_seconds)) as made,
    ):
        yield made


@contextlib.contextmanager
def database_alias(alias: str, url: str) -> Iterator[None]:
    """Let Django know another database for a while."""
    options = parse_qs(urlsplit(url).query)
    known = connections.settings["default"]
    connections.settings[alias] = known | {
        "NAME": urlsplit(url).path.removeprefix("/"),
        "USER": urlsplit(url).username or "",
        "HOST": urlsplit(url).hostname or "",
        "PORT": str(urlsplit(url).port or ""),
        "OPTIONS": {name: values[0] for name, values in options.items()},
    }
    try:
        yield
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]


@pytest.fixture
def proxy(server: Server) -> Iterator[CommitProxy]:
    made = CommitProxy(server.port)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server_environment() -> dict[str, str]:
    """What differs in a module's task server."""
    return {"LEDGENCE_LEASE_SECONDS": str(LEASE_SECONDS)}


@pytest.fixture(scope="module")
def task_server(
    django_db_setup: None, django_db_blocker: Any, server_environment: dict[str, str]
) -> Iterator[TaskServer]:
    """A task service over the test database for the tests of a module, which may restart it."""
    with django_db_blocker.unblock():
        made = TaskServer(address_of(connection), server_environment)
    with contextlib.closing(made):
        yield made


@pytest.fixture
def http_proxy(task_server: TaskServer) -> Iterator[HttpProxy]:
    with contextlib.closing(HttpProxy(task_server.port)) as made:
        yield made


@pytest.fixture
def remote(
    database_url: str, shared_settings: None, tmp_path: Path, lease_seconds: float, task_server: TaskServer
) -> Iterator[RemoteSite]:
    """A site before the module's task server."""
    with checked(RemoteSite("default", database_url, tmp_path, lease_seconds, task_server.url)) as made:
        yield made


@pytest.fixture
def proxied(remote: RemoteSite, http_proxy: HttpProxy) -> RemoteSite:
    """The site, with a proxy between its workers and the task server."""
    remote.server_url = http_proxy.url
    return remote
