"""One PostgreSQL data folder and the server that runs on it, reached through a Unix socket."""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

#: fsync stays on: what is measured and killed here must be what a real server does.
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "max_connections": "200",
    "fsync": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Counts statements only in a database that asks for it, as the benchmark's does.
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "none",
}
#: A start after a crash replays the server's log first.
START_SECONDS = 60.0
#: What the server says while processes of a killed predecessor are about to end.
STILL_IN_USE = "pre-existing shared memory block"
LOG_TAIL_BYTES = 4096


class ClusterFailed(Exception):
    """The server could not be made, started or stopped."""

    def __init__(self, folder: Path, action: str, detail: str) -> None:
        super().__init__(
            f"PostgreSQL in {folder} did not {action}:\n{detail.strip()}\n"
            "'make stop-db' stops the server, 'make remove-db' also removes its data."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A server whose data, log and socket live in ``folder``.

    ``user`` is the system user that runs it (None: the current one); root needs one, since PostgreSQL refuses root.
    ``settings`` override those above, for example to listen on a loopback port. Not safe for two starters at once:
    owner.py serialises them.
    """

    folder: Path
    binaries: Path
    user: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "log" / "postgresql.log"

    @property
    def socket(self) -> Path:
        return self.folder / "socket"

    @property
    def port(self) -> int:
        return int(self.settings.get("port", "5432"))

    def url(self, database: str) -> str:
        """Return the address of one of its databases, as DATABASE_URL takes it."""
        port = "" if self.port == 5432 else f"&port={self.port}"
        return f"postgresql://postgres@/{database}?host={quote(str(self.socket), safe='/')}{port}"

    def start(self) -> None:
        """Create the data if there are none, clear what a killed server left, and return when it takes connections."""
        self._create()
        deadline = time.monotonic() + START_SECONDS
        while self.process() is None and (failure := self._launch()):
            if STILL_IN_USE not in failure or time.monotonic() > deadline:
                raise ClusterFailed(self.folder, "start", failure)
            time.sleep(0.05)
        while failure := self._refusal():
            if time.monotonic() > deadline:
                raise ClusterFailed(self.folder, "take connections", failure + self.log_tail())
            time.sleep(0.05)

    def stop(self) -> bool:
        """Disconnect everybody and stop the server. Returns whether one was running."""
        if self.process() is None:
            return False
        stopped = self._call("pg_ctl", "--wait", "--mode", "fast", "stop")
        if self.process() is not None:
            raise ClusterFailed(self.folder, "stop", stopped.stdout + self.log_tail())
        return True

    def create_database(self, name: str) -> None:
        """Create a database unless it exists."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    @property
    def pid_file(self) -> Path:
        return self.data / "postmaster.pid"

    def process(self) -> psutil.Process | None:
        """Return the running server. A recorded pid that now belongs to another program is no server."""
        try:
            process = psutil.Process(int(self.pid_file.read_text().split(maxsplit=1)[0]))
            with process.oneshot():
                alive = process.status() != psutil.STATUS_ZOMBIE and str(self.data) in process.cmdline()
        except (FileNotFoundError, ValueError, IndexError, psutil.NoSuchProcess, psutil.AccessDenied):
            return None
        return process if alive else None

    def log_tail(self) -> str:
        """Return the end of the log since the last start, where the cause of a failure stands."""
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if self.log.exists() else ""

    def _create(self) -> None:
        for folder in (self.folder, self.log.parent, self.socket):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.user:
                shutil.chown(folder, user=self.user)
        if self.data.exists():
            return
        # Renamed when complete, so that a killed initdb leaves no half-made cluster behind.
        made = self.folder / "data.new"
        shutil.rmtree(made, ignore_errors=True)
        options = ("--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--username=postgres")
        created = self._call("initdb", *options, data=made)
        if created.returncode:
            raise ClusterFailed(self.folder, "create its data", created.stdout)
        made.rename(self.data)

    def _configure(self) -> None:
        # Written at each start: a data folder made earlier follows today's settings.
        settings = {**SETTINGS, "unix_socket_directories": str(self.socket), **self.settings}
        lines = (f"{name} = '{value.replace("'", "''")}'\n" for name, value in settings.items())
        (self.data / "postgresql.conf").write_text("".join(lines))

    def _launch(self) -> str:
        """Start the server and return "", or why it did not start."""
        # A pid that is no server's would keep the new one from starting.
        self.pid_file.unlink(missing_ok=True)
        self.log.unlink(missing_ok=True)
        self._configure()
        started = self._call("pg_ctl", "--wait", "--log", str(self.log), "start")
        return started.stdout + self.log_tail() if started.returncode else ""

    def _refusal(self) -> str:
        """Connect and return "", or why it was refused."""
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError as error:
            return f"{error}\n"
        return ""

    def _call(self, program: str, *arguments: str, data: Path | None = None) -> subprocess.CompletedProcess[str]:
        # Output goes to a file: the server inherits it, so a pipe would stay open as long as the server runs.
        command = [str(self.binaries / program), "--pgdata", str(data or self.data), *arguments]
        output = self.folder / "log" / f"{program}.log"
        with output.open("w") as file:
            result = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd="/",
                env={**os.environ, "LC_ALL": "C.UTF-8"},
                start_new_session=True,  # The terminal's Ctrl-C is for the command, not for the server beneath it.
                check=False,
                user=self.user,
                extra_groups=[] if self.user else None,
            )
        return subprocess.CompletedProcess(result.args, result.returncode, output.read_text())
