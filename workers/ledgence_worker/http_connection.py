"""One connection to a server over HTTP/1.1, with deadlines for whole exchanges and doubts told as Unavailable."""

import contextlib
import io
import select
import socket
import ssl
import time
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from ledgence_worker.errors import InvalidInput, Unavailable
from ledgence_worker.http_tunnel import Proxy, open_tunnel

CONNECT_SECONDS: Final = 5.0
#: A connection that was idle for longer is not trusted: whatever stands between may have forgotten it.
IDLE_SECONDS: Final = 50.0
#: The slowest network that a large message must still get through, in bytes a second, beside its deadline.
SLOWEST: Final = 100_000
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
        self._http: HTTPConnection | None = None
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
            self._is_interrupted = False
            raise Unavailable(f"{method} {path} had no answer: {type(error).__name__}: {error}") from error
        if response.will_close:
            self.close()
        self._used_at = time.monotonic()
        told = response.headers
        return Answer(response.status, told.get_content_type(), content, told.get("Retry-After"))

    def interrupt(self) -> None:
        """Make an exchange that waits on another thread fail at once."""
        self._is_interrupted = True
        http = self._http
        if http is not None and http.sock is not None:
            with contextlib.suppress(OSError):
                http.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; the next exchange opens another."""
        if self._http is not None:
            self._http.close()
            self._http = None

    def _connected(self, deadline: float) -> HTTPConnection:
        if self._http is not None and self._is_stale(self._http):
            self.close()
        if self._http is None:
            seconds = max(0.001, min(CONNECT_SECONDS, deadline - time.monotonic()))
            _, host, port, _ = self._address
            self._http = (
                HTTPSConnection(host, port, timeout=seconds, context=self._context)
                if self._context
                else HTTPConnection(host, port, timeout=seconds)
            )
            if self._context is None or self._proxy is None:
                self._http.connect()
            else:
                tunnel = open_tunnel(self._proxy, host, port, time.monotonic() + seconds)
                self._http.sock = self._context.wrap_socket(tunnel, server_hostname=host)
            self._http.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Any: http.client takes whatever behaves like the socket that it uses.
            wire: Any = _Timed(self._http.sock)
            self._http.sock = wire
        timed: Any = self._http.sock
        timed.deadline = deadline
        return self._http

    def _is_stale(self, http: HTTPConnection) -> bool:
        """Whether the other side has closed it, or may have: better to notice before a request than by its loss."""
        if http.sock is None or time.monotonic() - self._used_at > IDLE_SECONDS:
            return True
        poll = select.poll()
        poll.register(http.sock.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _read(self, response: Any) -> bytes:
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


class _Timed(io.RawIOBase):
    """A socket whose every read and write keeps one deadline: a server that drips must not hold its caller."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.deadline = 0.0

    def _arm(self) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        self._socket.settimeout(left)

    def sendall(self, data: Any) -> None:
        self._arm()
        self._socket.sendall(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._arm()
        count = self._socket.recv_into(buffer)
        # What arrives may take as long as its size does on the slowest network.
        self.deadline += count / SLOWEST
        return count

    def makefile(self, mode: str) -> io.BufferedReader:
        # Closing a response must not close the connection, so each gets a reader of its own that only borrows it.
        return io.BufferedReader(_Borrowed(self))

    def shutdown(self, how: int) -> None:
        self._socket.shutdown(how)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


class _Borrowed(io.RawIOBase):
    def __init__(self, timed: _Timed) -> None:
        self._timed = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._timed.readinto(buffer)
