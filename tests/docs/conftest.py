"""Fixtures of the documentation's tests."""

from collections.abc import Iterator

import pytest

from tests.docs.project import empty_database


@pytest.fixture
def reader_database() -> Iterator[dict[str, object]]:
    """An empty database of a reader's project, as a value of DATABASES."""
    with empty_database() as database:
        yield database
