"""The health pages on the loopback address: /health/live and /health/ready, each with its reasons in JSON."""

import json
import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol

from ledgence_worker.clock import Clock
from ledgence_worker.errors import InvalidInput
from ledgence_worker.protocol import Session
from ledgence_worker.stopping import Stopping

logger = logging.getLogger("ledgence_worker.health")

TURN_SECONDS_MAX = 10.0
REQUEST_SECONDS_MAX = 5.0


class Vitals:
    """What is known of the worker's health. Written by the worker's threads, read by the page's; plain attributes."""

    def __init__(self, clock: Clock, stopping: Stopping, acquire_wait_seconds: float) -> None:
        self._clock = clock
        self._stopping = stopping
        self._acquire_wait_seconds = acquire_wait_seconds
        self.session: Session | None = None
        #: When the main loop last turned; None until it runs.
        self.turned_at: Callable[[], float] | None = None
        #: When the task service last answered.
        self.answered_at: Callable[[], float] | None = None
        #: Whether every slot is quarantined, so that nothing can run.
        self.is_blocked: Callable[[], bool] = lambda: False
        #: For how long brokers have not answered, and why, by queue, where that is long.
        self.silences: Callable[[], dict[str, str]] = dict

    def live_problems(self) -> list[str]:
        """Return why the process should be restarted; empty while it is alive."""
        if self.turned_at is None:
            return []
        silence = self._clock.monotonic() - self.turned_at()
        return [f"the main loop has not turned for {silence:.0f} s"] if silence > TURN_SECONDS_MAX else []

    def ready_problems(self) -> list[str]:
        """Return why no work is taken; empty when it is."""
        problems = self.live_problems()
        if self._stopping.is_requested:
            problems.append(f"stopping: {self._stopping.reason or 'signal'}")
        if self.session is None or self.answered_at is None:
            return [*problems, "no session is open yet"]
        # An idle worker hears from the service once per wait, a busy one once per renewal.
        patience = max(2 * self.session.lease_seconds, self._acquire_wait_seconds + 10)
        silence = self._clock.monotonic() - self.answered_at()
        if silence > patience:
            problems.append(f"the task service has not answered for {silence:.0f} s")
        if self.is_blocked():
            problems.append("every slot is quarantined: processes could not be confirmed gone")
        for queue, told in self.silences().items():
            problems.append(f"the broker of queue {queue} has not answered for {told}")
        return problems


class Patient(Protocol):
    """Whoever can tell what is wrong with it: a worker by its vitals, housekeeping."""

    def live_problems(self) -> list[str]: ...

    def ready_problems(self) -> list[str]: ...


class HealthServer:
    """Serves the pages on 127.0.0.1 from a thread of its own, until closed. Raises InvalidInput for a taken port."""

    def __init__(self, port: int, vitals: Patient) -> None:
        pages = {"/health/live": vitals.live_problems, "/health/ready": vitals.ready_problems}

        class Handler(_Handler):
            problems_of = pages

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as error:
            raise InvalidInput(f"Health port {port} cannot be used: {error.strerror}. Choose another.") from error
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="ledgence-health", daemon=True
        )
        self._thread.start()
        logger.info("health pages served port=%s", self.port)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(REQUEST_SECONDS_MAX)


class _Handler(BaseHTTPRequestHandler):
    problems_of: dict[str, Callable[[], list[str]]]
    # A client that sends nothing must not keep its thread for ever.
    timeout = REQUEST_SECONDS_MAX
    server_version = "ledgence"
    sys_version = ""

    def do_GET(self) -> None:
        page = self.problems_of.get(self.path.partition("?")[0])
        if page is None:
            self.send_error(404)
            return
        problems = page()
        body = json.dumps({"status": "failing" if problems else "ok", "reasons": problems}).encode()
        self.send_response(503 if problems else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        logger.debug("health page asked path=%s", getattr(self, "path", ""))
