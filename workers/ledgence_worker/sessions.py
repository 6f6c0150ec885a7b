"""The session of a worker process at the task service: how it is opened, and how it is closed."""

import logging
import os
import socket
from importlib.metadata import PackageNotFoundError, version
from uuid import uuid4

from ledgence_worker.clock import Clock
from ledgence_worker.errors import Busy, InvalidInput, LedgenceError, Unavailable
from ledgence_worker.limits import LEASE_SECONDS_MIN
from ledgence_worker.patience import Patience
from ledgence_worker.protocol import CatalogueEntry, OpenSession, Session
from ledgence_worker.settings import WorkerSettings
from ledgence_worker.task_service import TaskService

logger = logging.getLogger("ledgence_worker.sessions")

#: How long closing the session is tried. Nothing but what people see of it depends on that.
CLOSE_SECONDS = 2.0


def open_session(
    service: TaskService, settings: WorkerSettings, catalogue: tuple[CatalogueEntry, ...], patience: Patience
) -> Session:
    """Open a session, waiting for the task service as long as it takes. Raises what it refuses with."""
    command = OpenSession(
        session_id=uuid4(),
        name=settings.name,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=_own_version(),
        concurrency=settings.concurrency,
        tenant=settings.tenant,
        namespace=settings.namespace,
        queues=settings.queues,
        exclude_queues=settings.exclude_queues,
        catalogue=catalogue,
    )
    session = patience.repeat(lambda: service.open_session(command), "open_session", on=(Busy, Unavailable))
    if session.lease_seconds < LEASE_SECONDS_MIN:
        raise InvalidInput(f"a lease of {session.lease_seconds} s is too short to be kept; make it 2 s or more")
    return session


def close_session(service: TaskService, session: Session, patience: Patience, clock: Clock) -> None:
    """Close a session if that can be done soon."""
    until = clock.monotonic() + CLOSE_SECONDS
    while True:
        try:
            service.close_session(session.session_id)
        except LedgenceError as error:
            if isinstance(error, Busy | Unavailable) and clock.monotonic() < until and not patience.pause():
                continue
            logger.warning("session not closed session=%s error=%s", session.session_id, error)
        return


def _own_version() -> str:
    try:
        return version("django-ledgence-worker")
    except PackageNotFoundError:
        return "not installed"
