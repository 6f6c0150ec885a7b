"""A proxy before PostgreSQL that loses a COMMIT, or the server's answer to one, and cuts the connection.

To the client both look the same, and SQL knows no way to tell them apart: after the first nothing has happened, after
the second everything has. It reads along, so the connection must not be encrypted.
"""

import contextlib
import random
import socket
import threading
from collections.abc import Callable
from enum import Enum


class Loss(Enum):
    """What is lost, once."""

    # The client's COMMIT never reaches the server, which rolls back.
    COMMIT = b"COMMIT"
    # The server has committed; its answer never reaches the client.
    REPLY = b"COMMIT\0"


class CommitProxy:
    """Forwards connections from ``port`` to the server until closed; lose() arms it for one loss.

    The server is named by its port of the loopback interface, or by the path of its socket.
    """

    def __init__(self, server: int | str) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._is_lost: Callable[[Loss, bytes, str], bool] = lambda loss, data, name: False
        self.losses = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, loss: Loss, *names: str) -> None:
        """Lose the next one on a connection whose application_name is among ``names``."""

        def is_lost(seen: Loss, data: bytes, name: str) -> bool:
            return self.losses == 0 and seen is loss and name in names and loss.value in data

        self._arm(is_lost)

    def lose_any_reply(self, name: str) -> None:
        """Lose the next answer of the server on a connection, whatever it is."""
        self._arm(lambda seen, data, to: self.losses == 0 and seen is Loss.REPLY and to == name)

    def lose_often(self, share: float, chance: random.Random) -> None:
        """Lose this share of all COMMITs and of their replies, for as long as the proxy runs."""
        self._arm(lambda seen, data, name: seen.value in data and chance.random() < share)

    def close(self) -> None:
        self._listener.close()
        for end in list(self._open):
            _cut(end)

    def _arm(self, is_lost: Callable[[Loss, bytes, str], bool]) -> None:
        with self._lock:
            self.losses = 0
            self._is_lost = is_lost

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self._server, int):
            return socket.create_connection(("127.0.0.1", self._server))
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._server)
        return server

    def _serve(self, client: socket.socket) -> None:
        try:
            server = self._connect()
        except OSError:
            client.close()
            return
        pair = {client, server}
        self._open |= pair
        with contextlib.suppress(OSError):
            start = client.recv(65536)
            name = application_name(start)
            server.sendall(start)
            back = threading.Thread(target=self._pump, args=(server, client, Loss.REPLY, name), daemon=True)
            back.start()
            self._pump(client, server, Loss.COMMIT, name)
            back.join()
        for end in pair:
            _cut(end)
        self._open -= pair

    def _pump(self, source: socket.socket, target: socket.socket, kind: Loss, name: str) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                with self._lock:
                    is_lost = self._is_lost(kind, data, name)
                    self.losses += is_lost
                if is_lost:
                    break
                target.sendall(data)
        # Closed later, by the thread that opened them.
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def application_name(start: bytes) -> str:
    """Read it from the first message of a connection: names and values, each ended by a NUL."""
    words = start[8:].split(b"\0")
    values = dict(zip(words[::2], words[1::2], strict=False))
    return values.get(b"application_name", b"").decode()


def _cut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
