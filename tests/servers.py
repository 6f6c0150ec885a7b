"""PostgreSQL servers of the tests' own, which they may crash, restart and configure."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
from psycopg import sql

from ledgence_project.embedded import Cluster, remove
from ledgence_project.embedded.environment import CHECKOUT
from ledgence_project.embedded.place import binaries, place_of, system_user

TEMPLATE = "migrated"
STOP_SECONDS = 30.0


class Server:
    """A server with a migrated database to copy. It listens on its socket and on a loopback port."""

    def __init__(self, cluster: Cluster, port: int) -> None:
        self._cluster = cluster
        self.port = port
        self._made = 0

    def start(self) -> None:
        """Start it, after a crash too, and return when it takes connections."""
        self._cluster.start()

    def crash(self) -> None:
        """End the server at once, as an immediate stop does: every session is cut, nothing is flushed."""
        process = self._cluster.process()
        assert process is not None, "the server does not run"
        process.send_signal(signal.SIGQUIT)
        process.wait(STOP_SECONDS)

    def migrate(self) -> None:
        """Make the database that new ones are copies of."""
        self._cluster.create_database(TEMPLATE)
        command = [sys.executable, str(CHECKOUT / "manage.py"), "migrate", "--verbosity", "0"]
        subprocess.run(
            command, env=os.environ | {"DATABASE_URL": self._cluster.url(TEMPLATE)}, cwd=CHECKOUT, check=True
        )

    def make_database(self) -> str:
        """Make a migrated database and return its name."""
        self._made += 1
        name = f"copy_{self._made}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(TEMPLATE))
            )
        return name

    def url(self, database: str, port: int | None = None) -> str:
        """Return an address over the loopback interface; ``port`` of a proxy, perhaps, which needs to read along."""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{database}?sslmode=disable&gssencmode=disable"

    def socket_url(self, database: str) -> str:
        return self._cluster.url(database)


@contextlib.contextmanager
def own_server(
    folder: Path, programs: Path | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Run a server in a place that belongs to ``folder``, with the PostgreSQL in ``programs``, and remove it."""
    port = free_port()
    cluster = Cluster(
        folder=place_of(folder) / "cluster",
        binaries=programs or binaries(),
        user=system_user(),
        settings={"listen_addresses": "127.0.0.1", "port": str(port), **(settings or {})},
    )
    try:
        cluster.start()
        server = Server(cluster, port)
        server.migrate()
        yield server
    finally:
        remove(folder)


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
