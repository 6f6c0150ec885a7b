"""Callers with sockets of their own, who send what they like."""

import json
import socket
from collections.abc import Iterable
from contextlib import suppress
from http.client import HTTPResponse
from types import TracebackType
from typing import Any, Self

from tests.http.site import PREFIX, Answer

PATIENCE_SECONDS = 30.0


class Connection:
    """One connection to a server. Use it as a context manager."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        self._method = "GET"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> bool:
        """Send bytes; False when the other side has hung up. What it has said before can still be read."""
        try:
            self._socket.sendall(data)
        except (ConnectionError, TimeoutError):
            return False
        return True

    def send_all(self, parts: Iterable[bytes]) -> int:
        """Send parts until all are sent or the other side hangs up; return how many bytes it took."""
        sent = 0
        for part in parts:
            if not self.send(part):
                break
            sent += len(part)
        return sent

    def begin(
        self,
        method: str,
        path: str,
        document: object = None,
        *,
        token: str | None = None,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes | None = None,
        query: str = "",
    ) -> None:
        """Send a whole request."""
        pairs = list(headers)
        if document is not None:
            body = json.dumps(document).encode()
            pairs.append(("Content-Type", "application/json"))
        if body is not None:
            pairs.append(("Content-Length", str(len(body))))
        self.send(head(method, path, pairs, token=token, query=query))
        self._method = method
        if body:
            self.send(body)

    def answer(self) -> Answer:
        """Read the answer of the last request."""
        response = HTTPResponse(self._socket, method=self._method)
        response.begin()
        body = response.read()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(status=response.status, headers=headers, body=body)

    def ask(self, method: str, path: str, document: object = None, **options: Any) -> Answer:
        self.begin(method, path, document, **options)
        return self.answer()

    def rest(self) -> bytes:
        """Read what comes until the other side hangs up."""
        parts = []
        with suppress(ConnectionError):
            while part := self._socket.recv(65536):
                parts.append(part)
        return b"".join(parts)

    def until_quiet(self, seconds: float = 1.0) -> bytes:
        """Read what comes until the other side hangs up or says nothing for a while."""
        self._socket.settimeout(seconds)
        parts = []
        with suppress(ConnectionError, TimeoutError):
            while part := self._socket.recv(65536):
                parts.append(part)
        return b"".join(parts)

    def is_closed(self) -> bool:
        """Wait for the other side's end, and tell whether nothing came before it."""
        return self.rest() == b""


def head(
    method: str, path: str, headers: Iterable[tuple[str, str]] = (), *, token: str | None = None, query: str = ""
) -> bytes:
    """Return the first lines of a request."""
    pairs = [("Host", "127.0.0.1"), *headers]
    if token is not None:
        pairs.append(("Authorization", f"Bearer {token}"))
    target = (path if path.startswith("/") else PREFIX + path) + (f"?{query}" if query else "")
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def ask(port: int, method: str, path: str, document: object = None, **options: Any) -> Answer:
    """Ask on a connection of its own."""
    with Connection(port) as connection:
        return connection.ask(method, path, document, **options)
