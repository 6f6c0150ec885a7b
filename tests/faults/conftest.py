"""The scenes of the fault tests: on the database that all tests share, and on a server of the tests' own."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.faults.site import LEASE_SECONDS, Site


@pytest.fixture
def lease_seconds() -> float:
    return LEASE_SECONDS


@pytest.fixture
def shared_settings(settings, lease_seconds: float) -> None:
    """Let this process, which cancels and audits, and its workers agree on the length of a lease."""
    settings.LEDGENCE = {**settings.LEDGENCE, "LEASE_SECONDS": lease_seconds}


@contextlib.contextmanager
def checked(site: Site) -> Iterator[Site]:
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
