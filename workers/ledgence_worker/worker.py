"""The worker: composes its parts around one session, runs the main loop, and ends with an exit code."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack

from ledgence_worker.clock import Clock, SystemClock
from ledgence_worker.consumed_queue import ConsumedQueue
from ledgence_worker.crew import Crew
from ledgence_worker.delivery.config import Route
from ledgence_worker.errors import LedgenceError
from ledgence_worker.health import HealthServer, Vitals
from ledgence_worker.inbox import Inbox
from ledgence_worker.lease import LeaseKeeper, stop_seconds
from ledgence_worker.patience import Patience
from ledgence_worker.pool import Pool
from ledgence_worker.protocol import Session
from ledgence_worker.routing import check_routes, needs_acquirer, open_queue
from ledgence_worker.sessions import close_session, open_session
from ledgence_worker.settings import WorkerSettings
from ledgence_worker.shared import Shared
from ledgence_worker.slots import SlotCounts
from ledgence_worker.stopping import ExitCode, Interrupted, Stopping, stop_signals
from ledgence_worker.systemd import ServiceManager
from ledgence_worker.task_service import TaskService

logger = logging.getLogger("ledgence_worker.worker")


class Worker:
    """Runs the work of one session with the processes of a pool, and closes the pool and the service at its end.

    The exit codes of run(): 0 stopped clean (also when drained), 1 forced to stop or left an attempt to expire, 2
    cannot work as configured or its programs do not load, 3 the session expired or a part of the worker failed. The
    worst that happened counts.
    """

    def __init__(
        self,
        service: TaskService,
        pool: Pool,
        settings: WorkerSettings,
        clock: Clock | None = None,
        *,
        routes: Sequence[Route] = (),
    ) -> None:
        self._service = service
        self._pool = pool
        self._settings = settings
        self._routes = routes
        self._queues: list[ConsumedQueue] = []
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
                for queue in self._queues:
                    queue.close()
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
                self._open_queues()
                session = open_session(self._service, self._settings, catalogue, self._patience())
            self._pool.shorten_stops(stop_seconds(session.cleanup_seconds))
            check_routes(self._routes, self._queues, session, self._settings)
        except Interrupted:
            # A signal between the session's opening and here finds work to drain.
            if session is None:
                logger.info("worker stopped before it had a session")
                self._stopping.reason = "signal"
        except LedgenceError as error:
            logger.error("worker cannot start error=%s", error)
            self._refuse(session)
            session = None
        except Exception:
            logger.exception("worker cannot start")
            self._refuse(session)
            session = None
        return session

    def _refuse(self, session: Session | None) -> None:
        """End before anything was done."""
        self._stopping.reason = "cannot start"
        self._stopping.worsen(ExitCode.CONFIGURATION)
        if session is not None:
            close_session(self._service, session, self._patience(), self._clock)

    def _open_queues(self) -> None:
        """Have every route's broker that answers say whether its queue can be used, before anything is begun."""
        for route in self._routes:
            self._queues.append(open_queue(route))

    def _patience(self) -> Patience:
        return Patience(self._clock, self._stopping.forced)

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
            consumed=frozenset(queue.name for queue in self._queues),
        )
        acquires = needs_acquirer(self._routes, self._settings)
        self._crew = crew = Crew(shared, self._pool, self._queues, acquires=acquires)
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
        self._vitals.silences = crew.silences
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
            close_session(self._service, session, self._patience(), self._clock)
        self._service.close()


def _told_queues(settings: WorkerSettings) -> str:
    """Return the queues as one word of a log line."""
    if settings.exclude_queues and not settings.queues:
        return "all-but:" + ",".join(settings.exclude_queues)
    return ",".join(settings.queues) or "all"
