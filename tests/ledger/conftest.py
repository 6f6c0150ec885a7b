"""Fixtures of the ledger's tests: a worker, and a clock that stands still."""

from collections.abc import Iterator

import pytest
from django.db import connection

from tests.ledger.actors import Worker
from tests.ledger.frozen import SCHEMA, FrozenClock


@pytest.fixture(scope="session")
def frozen_schema(django_db_setup: None, django_db_blocker) -> None:
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(SCHEMA)


@pytest.fixture
def clock(frozen_schema: None, db: None) -> Iterator[FrozenClock]:
    """The database's clock for this test's connection, standing still."""
    frozen = FrozenClock()
    yield frozen
    frozen.thaw()


@pytest.fixture
def worker(db: None) -> Worker:
    return Worker()
