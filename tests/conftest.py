"""What all tests share: the address of the test database, for processes that a test starts, and how it is emptied."""

import signal
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.db import connection
from django.test import TransactionTestCase
from psycopg import sql

#: What takes minutes: it begins first, so that no process works on it alone while the others have nothing left.
LONGEST = (
    "tests/compat/",
    "tests/ledger/races/",
    "tests/scale/",
    "tests/ledger/test_model.py",
    "tests/demo/",
    "tests/attacks/test_demos.py",
    "tests/brokers/processes/test_outage.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--passed-at-least",
        type=int,
        default=0,
        metavar="N",
        help="fail unless N tests passed: none is left out unseen",
    )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which fewer tests passed than were to."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    wanted = session.config.getoption("passed_at_least")
    # The processes that a run is spread over know their own tests alone, and have no reporter.
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    passed = len(reporter.stats.get("passed", ()))
    if passed < wanted and not session.exitstatus:
        reporter.write_line(f"{passed} tests passed, and {wanted} were to.", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the longest files begin first; the others keep their order, which is a random one."""
    items.sort(
        key=lambda item: next((n for n, path in enumerate(LONGEST) if item.nodeid.startswith(path)), len(LONGEST))
    )


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """Return the test database's address: what a test started elsewhere must find has to be committed."""
    return address_of(connection)


def address_of(database: Any) -> str:
    """Return the address of a connection's database, as DATABASE_URL has it."""
    settings = database.settings_dict
    login = quote(settings["USER"], safe="")
    if settings["PASSWORD"]:
        login += ":" + quote(settings["PASSWORD"], safe="")
    options = {"host": settings["HOST"], "port": settings["PORT"]}
    return f"postgresql://{login}@/{settings['NAME']}?{urlencode({k: v for k, v in options.items() if v})}"


@pytest.fixture(scope="session", autouse=True)
def hangups_are_heard() -> None:
    """A run under nohup ignores SIGHUP, and so would the workers that it starts."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


#: What migrations leave for every test: no test changes it.
KEPT_TABLES = frozenset({"django_content_type", "auth_permission"})


@pytest.fixture(scope="session", autouse=True)
def tables_are_emptied_by_delete() -> Iterator[None]:
    """Delete what a test committed: Django's TRUNCATE makes every table's files anew, at 0.1 s and more a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda case: delete_every_row())
        yield


def delete_every_row() -> None:
    tables = set(connection.introspection.django_table_names(only_existing=True, include_views=False)) - KEPT_TABLES
    deletes = [sql.SQL("DELETE FROM {}").format(sql.Identifier(table)) for table in sorted(tables)]
    begin = sql.SQL("BEGIN; SET CONSTRAINTS ALL DEFERRED")
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("; ").join([begin, *deletes, sql.SQL("COMMIT")]))
