"""A database of the benchmark's own: made, used by this process and its children, and dropped."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from django.core.management import call_command
from django.db import connections
from psycopg import sql


@contextmanager
def scratch_database(using: str) -> Iterator[psycopg.Connection]:
    """Point this process and its children at a new migrated database; yield a connection to the server's ``postgres``.

    The yielded connection is in autocommit, and stays out of the statistics of the new database.
    """
    settings = connections.settings[using]
    name = f"ledgence_bench_{os.getpid()}"
    # The driver's own parameters, so that the second connection reaches the same server in the same way. The configured
    # database itself need not exist: Django makes those of tests in the same manner.
    parameters = connections[using].get_connection_params() | {"dbname": "postgres"}
    connections[using].close()
    before = settings["NAME"], os.environ.get("DATABASE_URL", "")
    with psycopg.connect(**parameters, autocommit=True) as outside:
        outside.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            if counts_statements(outside):
                track = sql.SQL("alter database {} set pg_stat_statements.track = 'top'")
                outside.execute(track.format(sql.Identifier(name)))
                outside.execute("create extension if not exists pg_stat_statements")
            settings["NAME"] = name
            os.environ["DATABASE_URL"] = _url(settings)
            call_command("migrate", database=using, verbosity=0)
            yield outside
        finally:
            connections[using].close()
            settings["NAME"], os.environ["DATABASE_URL"] = before
            outside.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def counts_statements(connection: psycopg.Connection) -> bool:
    """Return whether the server has preloaded pg_stat_statements: only then does this setting of it exist."""
    row = connection.execute("select current_setting('pg_stat_statements.max', true) is not null").fetchone()
    return row is not None and bool(row[0])


def _url(settings: dict[str, Any]) -> str:
    login = quote(settings["USER"], safe="") + (
        ":" + quote(settings["PASSWORD"], safe="") if settings["PASSWORD"] else ""
    )
    options = {"host": settings["HOST"], "port": settings["PORT"], **settings["OPTIONS"]}
    return f"postgresql://{login}@/{settings['NAME']}?{urlencode({k: v for k, v in options.items() if v})}"
