"""A call on the ledger's database from a thread of its own, whose failures are told as the port's errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DataError, Error, InterfaceError, InternalError, OperationalError, ProgrammingError

from ledgence.transitions import sqlstate
from ledgence.worker_connections import Connections
from ledgence_worker.errors import InvalidInput, Unavailable

# feature_not_supported ("cached plan must not change result type"), invalid_sql_statement_name: what this session has
# prepared is out of date or gone, as after a migration; a new one prepares it anew.
OUTDATED = {"0A000", "26000"}
# undefined_table, undefined_column, undefined_function: the tables of this version of Ledgence are not there (yet).
NOT_MIGRATED = {"42P01", "42703", "42883"}


@contextmanager
def calling(connections: Connections, role: str) -> Iterator[None]:
    """Run one call on the thread's own connection. A failure of the database is Unavailable: repeat it unchanged."""
    connection = connections.use(role)
    try:
        yield
    except DataError as error:
        # As a character that the database's encoding does not have: one such value must not end the worker.
        raise InvalidInput(f"The database takes no such value ({sqlstate(error)}): {error}") from error
    except Error as error:
        is_broken = isinstance(error, OperationalError | InterfaceError | InternalError)
        if not is_broken and sqlstate(error) not in OUTDATED:
            raise
        # Whatever state it is in, the next call begins with a new one.
        connection.close()
        raise Unavailable(f"The database did not answer ({sqlstate(error) or 'no code'}): {error}") from error


@contextmanager
def told_if_not_migrated(using: str) -> Iterator[None]:
    """Tell that the tables are not there (yet) as InvalidInput, with what to do."""
    try:
        yield
    except ProgrammingError as error:
        if sqlstate(error) not in NOT_MIGRATED:
            raise
        what = str(error).partition("\n")[0]
        raise InvalidInput(f"Database {using!r} is not migrated ({what}): run manage.py migrate.") from error
