"""Fixtures of the ledger's tests: a worker, and a clock that stands still."""

from collections.abc import Iterator

import pytest
from django.db import connection

from ledgence import token_cache, tokens
from ledgence.token_cache import TokenCache
from tests.ledger.actors import Worker
from tests.ledger.frozen import SCHEMA, FrozenClock
from tests.ledger.tokens import Monotonic


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


@pytest.fixture
def process_clock(monkeypatch: pytest.MonkeyPatch) -> Monotonic:
    """The process's clock, standing still, in a process that remembers no token."""
    clock = Monotonic()
    monkeypatch.setattr(token_cache, "time", clock)
    monkeypatch.setattr(tokens, "time", clock)
    monkeypatch.setattr(tokens, "_valid", TokenCache())
    return clock
