"""pytest plugin: without DATABASE_URL, hold the embedded server for the run and give the run a database of its own."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import psycopg
import pytest
from psycopg import sql

from ledgence_project.embedded.cluster import Cluster
from ledgence_project.embedded.environment import CHECKOUT, environment
from ledgence_project.embedded.owner import held


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Set DATABASE_URL before pytest-django reads the settings in this same hook.

    The address names the process: two runs in one checkout do not meet, and a child process that was not told the
    test database's name fails instead of writing into the database of development.
    """
    url = os.environ.get("DATABASE_URL")
    if not url:
        stack = ExitStack()
        early_config.add_cleanup(stack.close)
        cluster = stack.enter_context(held(CHECKOUT))
        drop_abandoned(cluster)
        url = cluster.url(f"ledgence_{os.getpid()}")
    os.environ.update(environment(url))
    return (yield)


def drop_abandoned(cluster: Cluster) -> list[str]:
    """Drop the test databases of runs that were killed, and return their names."""
    dropped = []
    with psycopg.connect(cluster.url("postgres"), autocommit=True) as connection:
        names = connection.execute(
            "SELECT datname FROM pg_database WHERE datname LIKE 'test\\_ledgence\\_%'"
        ).fetchall()
        for (name,) in names:
            owner = re.match(r"test_ledgence_(\d+)", name)
            if owner and not psutil.pid_exists(int(owner[1])):
                connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
                dropped.append(name)
    return dropped
