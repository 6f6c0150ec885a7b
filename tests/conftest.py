"""What all tests share: the address of the test database, for processes that a test starts."""

import signal
from urllib.parse import quote, urlencode

import pytest
from django.db import connection


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """Return the test database's address: what a test started elsewhere must find has to be committed."""
    settings = connection.settings_dict
    login = quote(settings["USER"], safe="")
    if settings["PASSWORD"]:
        login += ":" + quote(settings["PASSWORD"], safe="")
    options = {"host": settings["HOST"], "port": settings["PORT"]}
    return f"postgresql://{login}@/{settings['NAME']}?{urlencode({k: v for k, v in options.items() if v})}"


@pytest.fixture(scope="session", autouse=True)
def hangups_are_heard() -> None:
    """A run under nohup ignores SIGHUP, and so would the workers that it starts."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
