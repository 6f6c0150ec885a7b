"""Connections of a worker's kind, for the thread of a test."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

from ledgence.worker_connections import WorkerConnections
from tests.ledger.actors import USING


class WorkerConnection:
    """One connection of a worker, which a test uses for a while, again and again. Use it as a context manager."""

    def __init__(self) -> None:
        self._own = WorkerConnections(USING)

    def __enter__(self) -> "WorkerConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self._own.close()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let the block's statements go over this connection."""
        before = connections[USING]
        self._own.use("test")
        try:
            yield
        finally:
            connections[USING] = before
