"""The database connections of a worker process: one for each of its threads, prepared for the same few statements."""

import copy
import threading
from functools import cache
from typing import Any, Protocol

from django.db import connections
from django.db.utils import load_backend
from psycopg import IsolationLevel

from ledgence.transitions import lock_timeout

# A broken network is noticed within seconds: renewals depend on it.
TCP = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
# A worker's statements touch a few rows by key, and each is planned once, perhaps while its tables are empty: the scan
# that is cheapest then is ruinous a minute later. Without these, end_attempts took 6.8 ms for 8 rows instead of 0.4.
# Once means once: find_due_from would be planned anew each time otherwise, for three times what it takes to run.
PLANS = (
    "-c plan_cache_mode=force_generic_plan "
    "-c enable_seqscan=off -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off"
)
STARTUP = f"-c statement_timeout=30s -c idle_in_transaction_session_timeout=30s {PLANS}"


def is_pooled(using: str) -> bool:
    """Whether the project says that this database is behind a transaction pooler, in the way that Django knows."""
    return bool(connections.settings[using].get("DISABLE_SERVER_SIDE_CURSORS"))


def tune(settings: dict[str, Any], *, role: str, pooled: bool) -> dict[str, Any]:
    """Return a database's settings for a worker's thread: with time-outs, and plans that need no statistics.

    Behind a transaction pooler nothing may belong to a session: no prepared statements, no start-up options.
    """
    tuned = copy.deepcopy(settings)
    tuned.update(CONN_MAX_AGE=None, CONN_HEALTH_CHECKS=False, ATOMIC_REQUESTS=False)
    options: dict[str, Any] = tuned.setdefault("OPTIONS", {})
    options.pop("pool", None)
    options["application_name"] = f"ledgence {role}"
    options["connect_timeout"] = options.get("connect_timeout", 5)
    options |= {name: value for name, value in TCP.items() if name not in options}
    # The driver would deallocate what batches have prepared, if it prepared statements of its own.
    options["prepare_threshold"] = None
    # Whatever the database or the project has as its default: what waited for a row must decide in a new snapshot.
    options["isolation_level"] = IsolationLevel.READ_COMMITTED
    if not pooled:
        options["options"] = f"{options.get('options', '')} {STARTUP} -c lock_timeout={lock_timeout()}".strip()
    return tuned


class Connections(Protocol):
    """Who gives the calling thread its connection under the alias."""

    using: str

    def use(self, role: str) -> Any:
        """Return the calling thread's connection; the first role of a thread is the name that the server shows."""

    def close(self) -> None:
        """Close what it has made."""


class RequestConnections:
    """Gives each thread the connection that Django manages for it: closed with the request, or kept for the next."""

    def __init__(self, using: str) -> None:
        self.using = using

    def use(self, role: str) -> Any:
        return connections[self.using]

    def close(self) -> None:
        """Leave them to Django."""


class WorkerConnections:
    """Gives each thread that calls use() a connection of its own under the alias, and closes all of them at the end."""

    def __init__(self, using: str) -> None:
        self.using = using
        self._local = threading.local()
        self._lock = threading.Lock()
        self._made: list[Any] = []

    def use(self, role: str) -> Any:
        """Make the calling thread's connection the worker's kind, the first time, and return it."""
        if not hasattr(self._local, "wrapper"):
            settings = tune(connections.settings[self.using], role=role, pooled=is_pooled(self.using))
            self._local.wrapper = _wrapper_class(settings["ENGINE"])(settings, self.using)
            self._local.wrapper.has_lock_timeout = self._local.wrapper.can_batch = not is_pooled(self.using)
            # Closed by close() from another thread, when its own has ended.
            self._local.wrapper.inc_thread_sharing()
            with self._lock:
                self._made.append(self._local.wrapper)
        connections[self.using] = self._local.wrapper
        return self._local.wrapper

    def close(self) -> None:
        with self._lock:
            for wrapper in self._made:
                wrapper.close()
            self._made.clear()


@cache
def _wrapper_class(engine: str) -> Any:
    """Return the engine's wrapper, which with DEBUG does not keep every statement: a worker runs for ever."""
    return type(
        "WorkerDatabaseWrapper", (load_backend(engine).DatabaseWrapper,), {"queries_logged": False, "batch": None}
    )
