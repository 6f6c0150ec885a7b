"""The named statements: one .sql file each, which says what it locks and which index it needs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import connections
from psycopg.pq import ExecStatus

from ledgence.sql.batch import Batch
from ledgence.sql.text import Rows, bind, text

__all__ = ["Rows", "batched", "run", "send", "text"]


def run(name: str, using: str, parameters: Mapping[str, Any] | None = None) -> Rows:
    """Execute the statement ``name`` on the database ``using`` and return its rows (none for a plain write).

    A list is sent as an array in PostgreSQL's own notation; the statement casts it to its type.
    """
    with connections[using].cursor() as cursor:
        cursor.execute(text(name), None if parameters is None else bind(parameters))
        return cursor.fetchall() if cursor.pgresult.status == ExecStatus.TUPLES_OK else []


def send(name: str, using: str, parameters: Mapping[str, Any]) -> Callable[[], Rows]:
    """Send the statement ``name`` and return what fetches its rows.

    Within batched() it waits until an answer is fetched, and travels with all that wait; an error of one is raised by
    that fetch, or at the end of the block. Elsewhere it is executed at once.
    """
    batch = getattr(connections[using], "batch", None)
    if batch is not None:
        fetch: Callable[[], Rows] = batch.add(name, parameters)
        return fetch
    rows = run(name, using, parameters)
    return lambda: rows


@contextmanager
def batched(using: str) -> Iterator[None]:
    """Let statements that are sent travel together, where the connection is a worker's. Begin it in the transaction.

    Statements that are run, and the ORM's, do not wait for those that were sent: fetch before you use them.
    """
    # Any: the two attributes are those of WorkerConnections' wrappers.
    connection: Any = connections[using]
    if not getattr(connection, "can_batch", False):
        yield
        return
    batch = connection.batch = Batch(connection)
    try:
        yield
        batch.flush()
    finally:
        connection.batch = None
