"""Fixtures of the tests over HTTP: one server for all tests of a module."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from tests.conftest import address_of
from tests.http.servers import Server, serving


@pytest.fixture(scope="module")
def server(django_db_setup: None, django_db_blocker: Any) -> Iterator[Server]:
    """A server over the test database, for what tests have committed."""
    with django_db_blocker.unblock(), serving(address_of(connection)) as made:
        yield made
