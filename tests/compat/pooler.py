"""PgBouncer in transaction mode before a server of the tests' own."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg

from ledgence_project.embedded.place import system_user
from tests.faults.waiting import wait_until
from tests.servers import Server, free_port

PROGRAM = Path("/usr/sbin/pgbouncer")
STOP_SECONDS = 10.0

CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server_port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 500
"""


@contextlib.contextmanager
def pooler(server: Server, *, size: int) -> Iterator[int]:
    """Run PgBouncer with ``size`` server connections a database, and yield its port."""
    if not PROGRAM.exists():
        raise AssertionError(f"{PROGRAM} is missing: install Debian's package pgbouncer, as .ci/run does.")
    port = free_port()
    # Not under pytest's folder, which other users cannot enter: as root it refuses to run.
    with tempfile.TemporaryDirectory(prefix="ledgence-pooler-") as name:
        folder = Path(name)
        (folder / "users").write_text('"postgres" ""\n')
        (folder / "pgbouncer.ini").write_text(
            CONFIGURATION.format(server_port=server.port, port=port, folder=folder, size=size)
        )
        user = system_user()
        if user:
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, user=user)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [str(PROGRAM), str(folder / "pgbouncer.ini")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                user=user,
                extra_groups=[] if user else None,
                env=dict(os.environ),
            )
        try:
            wait_until(lambda: _answers(server.url("postgres", port)), "PgBouncer to take connections")
            yield port
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
