"""One connection to a server over HTTP/1.1, with deadlines for whole exchanges and doubts told as Unavailable."""

import contextlib
import select
import ssl
import time
from http.client import HTTPConnection, HTTPException
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from ledgence_worker.errors import InvalidInput, Unavailable
from ledgence_worker.http_socket import SLOWEST, TimedSocket, connect, secure
from ledgence_worker.http_tunnel import Proxy, open_tunnel

CONNECT_SECONDS: Final = 5.0
#: A connection that was idle for longer is not trusted: whatever stands between may have forgotten it.
IDLE_SECONDS: Final = 50.0
_READ_BYTES: Final = 256 * 1024


class Address(NamedTuple):
    """Where a server is."""

    is_secure: bool
    host: str
    port: int
    #: Without a slash at its end.
    path: str


def parse_address(url: str) -> Address:
    """Read the URL of a server. Raises InvalidInput, never with what could be a password in its text."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidInput("The server's URL cannot be read.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput("The server's URL must be like https://tasks.example.com, with http or https.")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidInput("The server's URL must not hold a user, a password, a query or a fragment.")
    is_secure = parts.scheme == "https"
    return Address(is_secure, parts.hostname, port or (443 if is_secure else 80), parts.path.rstrip("/"))


class Answer(NamedTuple):
    """What the server sent back, whole."""

    status: int
    content_type: str
    body: bytes
    #: The header, as it was sent.
    retry_after: str | None = None


class Connection:
    """Sends one request at a time, each on the connection of the last one if that still stands. Belongs to a thread.

    It follows no redirects and knows no proxies of the environment: the address is all that counts, and the proxy that
    is named, for a server with TLS.
    """

    def __init__(
        self,
        address: Address,
        *,
        reply_bytes: int,
        context: ssl.SSLContext | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        self._address = address
        self._proxy = proxy
        self._reply_bytes = reply_bytes
        self._context = (context or ssl.create_default_context()) if address.is_secure else None
        self._socket: TimedSocket | None = None
        self._used_at = 0.0
        self._is_interrupted = False

    def exchange(self, method: str, path: str, headers: dict[str, str], body: bytes | None, seconds: float) -> Answer:
        """Send a request and return its answer, within so many seconds and what the sizes of both take.

        Raises Unavailable when anything is in doubt: then it may or may not have been carried out.
        """
        deadline = time.monotonic() + seconds + len(body or b"") / SLOWEST
        try:
            http = self._connected(deadline)
            if self._is_interrupted:
                raise InterruptedError("interrupted before it was sent")
            http.request(method, f"{self._address.path}{path}", body, headers)
            response = http.getresponse()
            content = self._read(response)
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            server = f"{self._address.host}:{self._address.port}"
            raise Unavailable(
                f"{method} {path} had no answer from {server}: {type(error).__name__}: {error}"
            ) from error
        finally:
            self._is_interrupted = False
        if response.will_close:
            self.close()
        self._used_at = time.monotonic()
        told = response.headers
        return Answer(response.status, told.get_content_type(), content, told.get("Retry-After"))

    def interrupt(self) -> None:
        """Make an exchange that waits on another thread fail at once."""
        self._is_interrupted = True
        if (timed := self._socket) is not None:
            with contextlib.suppress(OSError):
                timed.interrupt()

    def close(self) -> None:
        """Close the connection; the next exchange opens another."""
        if self._socket is not None:
            self._socket.end()
            self._socket = None

    def _connected(self, deadline: float) -> HTTPConnection:
        _, host, port, _ = self._address
        if self._socket is not None and self._is_stale(self._socket):
            self.close()
        if self._socket is None:
            self._socket = TimedSocket(self._open(host, port, min(deadline, time.monotonic() + CONNECT_SECONDS)))
        self._socket.deadline = deadline
        # One for each exchange: it has a state of its own, and nothing that costs.
        http = HTTPConnection(host, port)
        if self._context is not None:
            # So that it leaves the port out of the Host header where it is the usual one.
            http.default_port = 443
        # Any: http.client takes whatever behaves like the socket that it uses.
        timed: Any = self._socket
        http.sock = timed
        return http

    def _open(self, host: str, port: int, deadline: float) -> Any:
        if self._context is None:
            return connect(host, port, deadline)
        plain = open_tunnel(self._proxy, host, port, deadline) if self._proxy else connect(host, port, deadline)
        return secure(plain, host, self._context, deadline)

    def _is_stale(self, timed: TimedSocket) -> bool:
        """Whether the other side has closed it, or may have: better to notice before a request than by its loss."""
        if time.monotonic() - self._used_at > IDLE_SECONDS:
            return True
        poll = select.poll()
        poll.register(timed.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _read(self, response: Any) -> bytes:
        if response.length is None and not response.chunked:
            raise ValueError("the reply does not tell its length, so that its end is not known from a cut")
        parts = []
        size = 0
        while part := response.read(_READ_BYTES):
            size += len(part)
            if size > self._reply_bytes:
                raise ValueError(f"the reply has more than {self._reply_bytes} bytes")
            parts.append(part)
        if response.length:
            raise ValueError("the reply was cut short")
        return b"".join(parts)
