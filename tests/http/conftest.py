"""Fixtures of the tests over HTTP: the service in this process, and one server process for all tests of a module."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from tests.conftest import address_of
from tests.http.scene import Scene, set_scene
from tests.http.servers import Server, serving
from tests.http.site import Site


@pytest.fixture(scope="module")
def server(django_db_setup: None, django_db_blocker: Any) -> Iterator[Server]:
    """A server over the test database, for what tests have committed."""
    with django_db_blocker.unblock(), serving(address_of(connection)) as made:
        yield made


@pytest.fixture
def site(transactional_db: None) -> Iterator[Site]:
    """The ASGI application in this process."""
    with Site() as running:
        yield running


@pytest.fixture
def scene(transactional_db: None) -> Scene:
    """A ledger with something of every kind."""
    return set_scene()
