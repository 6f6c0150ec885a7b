"""The worker: composes its parts around one session, runs the main loop, and ends with an exit code."""

import logging
import os
import socket
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from uuid import uuid4

from ledgence_worker.clock import Clock, SystemClock
from ledgence_worker.crew import Crew
from ledgence_worker.errors import Busy, InvalidInput, LedgenceError, Unavailable
from ledgence_worker.health import HealthServer, Vitals
from ledgence_worker.inbox import Inbox
from ledgence_worker.lease import LeaseKeeper, stop_seconds
from ledgence_worker.limits import LEASE_SECONDS_MIN
from ledgence_worker.patience import Patience
from ledgence_worker.pool import Pool
from ledgence_worker.protocol import CatalogueEntry, OpenSession, Session
from ledgence_worker.settings import WorkerSettings
from ledgence_worker.shared import Shared
from ledgence_worker.slots import SlotCounts
from ledgence_worker.stopping import ExitCode, Interrupted, Stopping, stop_signals
from ledgence_worker.systemd import ServiceManager
from ledgence_worker.task_service import TaskService

logger = logging.getLogger("ledgence_worker.worker")

#: How long closing the session is tried. Nothing but what people see of it depends on that.
CLOSE_SECONDS = 2.0


class Worker:
    """Runs the work of one session with the processes of a pool, and closes the pool and the service at its end.

    The exit codes of run(): 0 stopped clean (also when drained), 1 forced to stop or left an attempt to expire, 2
    cannot work as configured or its programs do not load, 3 the session expired or a part of the worker failed. The
    worst that happened counts.
    """

    def __init__(self, service: TaskService, pool: Pool, settings: WorkerSettings, clock: Clock | None = None) -> None:
        self._service = service
        self._pool = pool
        self._settings = settings
        self._clock = clock or SystemClock()
        self._stopping = Stopping(settings.grace_seconds, self._clock, pool.wake)
        self._vitals = Vitals(self._clock, self._stopping, settings.acquire_wait_seconds)
        self._manager = ServiceManager()
        self._crew: Crew | None = None
        self._program_count = 0

    def run(self) -> int:
        """Work until stopped and return the exit code. Main thread only: it takes SIGTERM and SIGINT."""
        with ExitStack() as stack:
            stack.enter_context(stop_signals(self._stopping))
            stack.callback(self._pool.close)
            session = self._start(stack)
            if session is None:
                self._service.close()
            else:
                self._work(session)
        logger.info("worker stopped reason=%s exit_code=%s", self._stopping.reason, int(self._stopping.exit_code))
        return int(self._stopping.exit_code)

    def renew_now(self) -> None:
        """Ask the task service about all leases at once, as it hints when one was cancelled. Safe from any thread."""
        if self._crew is not None:
            self._crew.renew_now()

    def _start(self, stack: ExitStack) -> Session | None:
        """Open the pages, the pool and the session. None if that cannot be, or if a signal came first."""
        session = None
        try:
            if self._settings.health_port is not None:
                stack.callback(HealthServer(self._settings.health_port, self._vitals).close)
            with self._stopping.interrupting():
                catalogue = self._pool.open()
                self._program_count = len(catalogue)
                if not catalogue:
                    logger.warning(
                        "no program is known, so no work is taken: nothing that was loaded has registered one"
                    )
                session = self._open_session(catalogue)
        except Interrupted:
            # A signal between the session's opening and here finds work to drain.
            if session is None:
                logger.info("worker stopped before it had a session")
                self._stopping.reason = "signal"
        except LedgenceError as error:
            logger.error("worker cannot start error=%s", error)
            self._fail_to_start()
        except Exception:
            logger.exception("worker cannot start")
            self._fail_to_start()
        return session

    def _fail_to_start(self) -> None:
        self._stopping.reason = "cannot start"
        self._stopping.worsen(ExitCode.CONFIGURATION)

    def _open_session(self, catalogue: tuple[CatalogueEntry, ...]) -> Session:
        """Open the session, waiting for the task service as long as it takes."""
        settings = self._settings
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
        patience = Patience(self._clock, self._stopping.forced)
        session = patience.repeat(lambda: self._service.open_session(command), "open_session", on=(Busy, Unavailable))
        if session.lease_seconds < LEASE_SECONDS_MIN:
            raise InvalidInput(f"a lease of {session.lease_seconds} s is too short to be kept; make it 2 s or more")
        self._pool.shorten_stops(stop_seconds(session.cleanup_seconds))
        return session

    def _work(self, session: Session) -> None:
        inbox = Inbox(self._pool.wake)
        shared = Shared(
            settings=self._settings,
            service=self._service,
            session=session,
            slots=SlotCounts(self._settings.concurrency),
            keeper=LeaseKeeper(session.lease_seconds, inbox, self._clock),
            inbox=inbox,
            stopping=self._stopping,
            clock=self._clock,
        )
        self._crew = crew = Crew(shared, self._pool)
        self._watch(shared, crew)
        logger.info(
            "worker started session=%s concurrency=%s queues=%s programs=%s",
            session.session_id,
            self._settings.concurrency,
            _told_queues(self._settings),
            self._program_count,
        )
        crew.start()
        self._manager.ready()
        try:
            self._turn(crew)
        except Exception:
            logger.exception("main loop failed")
            self._stopping.worsen(ExitCode.FAILED)
            self._stopping.force()
        self._finish(session, crew)

    def _watch(self, shared: Shared, crew: Crew) -> None:
        self._vitals.session = shared.session
        self._vitals.turned_at = lambda: crew.loop.turned_at
        self._vitals.answered_at = crew.answered_at
        self._vitals.is_blocked = lambda: shared.slots.quarantined == shared.slots.count

    def _turn(self, crew: Crew) -> None:
        is_told = False
        while crew.turn():
            self._manager.beat(crew.loop.turned_at)
            if self._stopping.reason and not is_told:
                is_told = True
                self._manager.stopping()

    def _finish(self, session: Session, crew: Crew) -> None:
        if self._stopping.forced.is_set():
            # Programs die first: what they do after this moment nobody would record.
            self._pool.close()
        if not crew.close():
            return
        if not self._stopping.forced.is_set():
            self._close_session(session)
        self._service.close()

    def _close_session(self, session: Session) -> None:
        patience = Patience(self._clock, self._stopping.forced)
        until = self._clock.monotonic() + CLOSE_SECONDS
        while True:
            try:
                self._service.close_session(session.session_id)
            except LedgenceError as error:
                if isinstance(error, Busy | Unavailable) and self._clock.monotonic() < until and not patience.pause():
                    continue
                logger.warning("session not closed session=%s error=%s", session.session_id, error)
            return


def _told_queues(settings: WorkerSettings) -> str:
    """Return the queues as one word of a log line."""
    if settings.exclude_queues and not settings.queues:
        return "all-but:" + ",".join(settings.exclude_queues)
    return ",".join(settings.queues) or "all"


def _own_version() -> str:
    try:
        return version("django-ledgence-worker")
    except PackageNotFoundError:
        return "not installed"
