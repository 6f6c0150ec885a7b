"""Databases whose owner chose other defaults than PostgreSQL's."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connections, transaction

from ledgence.worker_connections import WorkerConnections
from tests.ledger.actors import USING, execute

pytestmark = pytest.mark.django_db(transaction=True)

#: What a worker needs, whatever the database's owner or the project chose.
NEEDED = {
    "transaction_isolation": ("serializable", "read committed"),
    "statement_timeout": ("1ms", "30s"),
    "lock_timeout": ("1ms", "1s"),
    "idle_in_transaction_session_timeout": ("1ms", "30s"),
}


@contextmanager
def database_default(name: str, value: str) -> Iterator[None]:
    database = connections[USING].settings_dict["NAME"]
    setting = name.replace("transaction_isolation", "default_transaction_isolation")
    execute(f"alter database {database} set {setting} = '{value}'")
    try:
        yield
    finally:
        execute(f"alter database {database} reset {setting}")


@pytest.fixture
def before() -> Iterator[None]:
    own = connections[USING]
    yield
    connections[USING] = own


@pytest.mark.parametrize("name", NEEDED)
def test_a_worker_has_the_settings_that_it_needs(before: None, name: str):
    value, needed = NEEDED[name]
    with database_default(name, value):
        workers = WorkerConnections(USING)
        own = connections[USING]
        workers.use("test")
        with transaction.atomic():
            assert execute(f"show {name}") == [(needed,)]
        workers.close()
        connections[USING] = own


def test_the_projects_isolation_level_is_not_the_workers(before: None, monkeypatch: pytest.MonkeyPatch):
    options = connections.settings[USING]["OPTIONS"]
    monkeypatch.setitem(options, "isolation_level", 3)
    workers = WorkerConnections(USING)
    workers.use("test")
    with transaction.atomic():
        assert execute("show transaction_isolation") == [("read committed",)]
    workers.close()
