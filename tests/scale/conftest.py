"""A database of a module's own: what is filled by the hundred thousand is dropped as a whole."""

from collections.abc import Iterator

import pytest

from ledgence_project.demo.scratch import scratch_database
from tests.ledger.actors import USING, execute
from tests.scale.explaining import GROWING


@pytest.fixture(scope="module")
def own_database(django_db_setup: None, django_db_blocker) -> Iterator[None]:
    """Point this module's tests at an empty database of their own, which nobody vacuums or analyzes behind them."""
    with django_db_blocker.unblock(), scratch_database(USING):
        for table in GROWING:
            execute(f"alter table {table} set (autovacuum_enabled = off)")
        yield
