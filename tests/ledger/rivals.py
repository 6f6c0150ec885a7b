"""A second connection on a thread of its own, stepped by a test: what it holds stays locked until it ends."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import Queue
from typing import Any, Self
from uuid import uuid4

from django.db import connections, transaction

from ledgence.worker_connections import WorkerConnections
from tests.ledger.actors import USING, execute

DEADLINE_SECONDS = 20.0


class Rival:
    """Runs calls one after the other on its own connection: of a worker's kind, when those are given.

    Use it as a context manager.
    """

    def __init__(self, workers: WorkerConnections | None = None) -> None:
        self._workers = workers
        self._calls: Queue[tuple[Callable[[], Any], Future[Any]] | None] = Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._name = f"rival {uuid4()}"
        self.pid = 0

    def __enter__(self) -> Self:
        self._thread.start()
        [(self.pid,)] = self.execute("select pg_backend_pid()")
        self.execute("select set_config('application_name', %s, false)", [self._name])
        return self

    def __exit__(self, *_: object) -> None:
        self._calls.put(None)
        self._thread.join(DEADLINE_SECONDS)
        assert not self._thread.is_alive(), "the rival's last call did not end"

    def _run(self) -> None:
        try:
            if self._workers is not None:
                self._workers.use("test")
            while (item := self._calls.get()) is not None:
                call, future = item
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
        finally:
            connections[USING].close()

    def begin(self, call: Callable[[], Any]) -> Future[Any]:
        """Start a call that may wait for a lock."""
        future: Future[Any] = Future()
        self._calls.put((call, future))
        return future

    def do(self, call: Callable[[], Any]) -> Any:
        return self.begin(call).result(DEADLINE_SECONDS)

    def execute(self, statement: str, parameters: Any = None) -> Any:
        return self.do(lambda: execute(statement, parameters))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold atomic() open for the block. At its end it is committed, or rolled back when the block raised."""
        block = transaction.atomic(using=USING)
        self.do(block.__enter__)
        try:
            yield
        except BaseException:
            self.do(lambda: transaction.set_rollback(True, using=USING))
            raise
        finally:
            self.do(lambda: block.__exit__(None, None, None))

    def is_blocked(self) -> bool:
        """Return whether it waits for a lock that another one holds."""
        # By its name: behind a transaction pooler each transaction may have another backend. What is known of backends
        # is kept until the end of a transaction, and the test may be in one.
        execute("select pg_stat_clear_snapshot()")
        query = "select 1 from pg_stat_activity where application_name = %s and pg_blocking_pids(pid) <> '{}'"
        return bool(execute(query, [self._name]))

    def wait_until_blocked(self, future: Future[Any]) -> None:
        """Return when the rival's current call waits for a lock of somebody else. Fails if it ends before."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self.is_blocked():
            assert not future.done(), f"the rival waited for nothing: {future}"
            assert time.monotonic() < deadline, f"the rival neither ended nor waited: {future}"


def hold_lease_until_it_expires(rival: Rival, call: Callable[[], Any]) -> Future[Any]:
    """In the test's transaction: lock the only lease, let the rival's call wait for it, and let its time run out."""
    execute("update ledgence_lease set expires_at = clock_timestamp() + interval '0.3 s'")
    future = rival.begin(call)
    rival.wait_until_blocked(future)
    execute("select pg_sleep(greatest(0, extract(epoch from expires_at - clock_timestamp()))) from ledgence_lease")
    assert execute("select clock_timestamp() >= expires_at from ledgence_lease") == [(True,)]
    return future
