"""The scene of a fault test over HTTP: a site whose workers reach its database through a task service only."""

import os
import signal
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from ledgence.handle import TaskHandle
from ledgence.tokens import Role, issue
from ledgence_project.demo.effects import FOLDER_VARIABLE
from ledgence_project.embedded.environment import CHECKOUT
from ledgence_worker.connect import TOKEN_VARIABLE
from tests.faults.site import Site
from tests.faults.worker_process import CONNECT, MARK_VARIABLE, WorkerProcess
from tests.http.servers import Server, await_health, serving

#: What a worker that has no database must do without.
DATABASE_VARIABLES = ("DATABASE_URL", "DJANGO_SETTINGS_MODULE")
PLAIN = "tests.faults.zoo.plain"
HOUSEKEEPING = (str(CHECKOUT / "manage.py"), "ledgence_recover")


class TaskServer:
    """The task service as a process of its own, which a test may kill and start again on its port."""

    def __init__(self, database_url: str, environment: Mapping[str, str], *options: str) -> None:
        self._stack = ExitStack()
        self._database_url = database_url
        self._environment = {"DJANGO_SETTINGS_MODULE": "tests.faults.settings", "LOG_LEVEL": "WARNING", **environment}
        # Two, so that the requests of a session meet in different processes.
        self._options = ("--workers", "2", *options)
        self._running: Server | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def process(self) -> Any:
        assert self._running is not None, "the server does not run"
        return self._running.process

    def start(self) -> None:
        """Start it if it does not run, and return when it answers."""
        if self._running is None:
            server = serving(self._database_url, *self._options, environment=self._environment, port=self.port)
            self._running = self._stack.enter_context(server)
            self.port = self._running.port

    def kill(self) -> None:
        """End all its processes at once, as a machine that fails does."""
        # Those of the workers are reaped by others, and hold the port until they are gone.
        workers = psutil.Process(self.process.pid).children(recursive=True)
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        psutil.wait_procs(workers)
        self._running = None

    def end(self) -> None:
        """End it as a service manager does."""
        assert self._running is not None, "the server does not run"
        self._running.end()
        self._running = None

    def await_health(self) -> None:
        assert self._running is not None, "the server does not run"
        await_health(self._running)

    def close(self) -> None:
        self._stack.close()


class RemoteSite(Site):
    """A site whose workers know a URL and a token. Tasks are submitted, and everything is checked, in the database."""

    #: The address that workers get.
    server_url: str

    def __init__(self, alias: str, url: str, folder: Path, lease_seconds: float, server_url: str) -> None:
        super().__init__(alias, url, folder, lease_seconds)
        self.server_url = server_url
        self.token_id, self.token = self.issue(Role.WORK)

    def issue(self, *roles: Role, **options: Any) -> tuple[int, str]:
        """Make a token and return its id and text."""
        row, text = issue(
            name="faults", roles=roles, tenant="default", namespace="default", using=self.alias, **options
        )
        return row.pk, text

    def remote_environment(self, **variables: str) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in DATABASE_VARIABLES}
        own = {FOLDER_VARIABLE: str(self.effects), MARK_VARIABLE: self._mark, TOKEN_VARIABLE: self.token}
        return inherited | own | variables

    def start_worker(self, *arguments: str, concurrency: int = 1, **variables: str) -> WorkerProcess:
        """Start a worker that has no database, and do not wait for it."""
        options = ["--server", self.server_url, "--import", PLAIN, *self._options(concurrency), *arguments]
        return self.start(options, self.remote_environment(**variables), CONNECT)

    def start_django_worker(self, *arguments: str, concurrency: int = 1, **variables: str) -> WorkerProcess:
        """Start a worker whose programs are Django's, and do not wait for it."""
        options = ["--server", self.server_url, *self._options(concurrency), *arguments]
        return self.start(options, self.environment(**{TOKEN_VARIABLE: self.token, **variables}))

    def start_housekeeping(self) -> WorkerProcess:
        """Start what ends expired leases where no worker has a database."""
        return self.start([], self.environment(), HOUSEKEEPING)

    def beat_before_next(self, task: TaskHandle, number: int) -> bool:
        """Whether an attempt of a beating program was last seen before the next one was handed out, by one clock."""
        following = next(attempt for attempt in task.attempts if attempt.number == number + 1)
        assert following.claimed_at is not None
        return self._last_beat(task, number) < following.claimed_at

    def _last_beat(self, task: TaskHandle, number: int) -> datetime:
        # The last line may be half written: a kill does not wait for it.
        *_, last, _ = (self.folder / f"beat-{task.id}.{number}").read_text().split("\n")
        return datetime.fromtimestamp(float(last), UTC)

    def submit_many(self, program: str, values: Iterable[Any], **options: Any) -> list[TaskHandle]:
        """Submit tasks of a plain program, as Site.submit_many() does."""
        return super().submit_many(f"plain-{program}", values, **options)
