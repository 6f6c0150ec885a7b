"""Sockets with a deadline: connecting, and every read and write after it, keep one moment for all of an exchange."""

import io
import socket
import ssl
import time
from typing import Any, Final

#: The slowest network that a large message must still get through, in bytes a second, beside its deadline.
SLOWEST: Final = 100_000


def left(deadline: float) -> float:
    """Return the seconds until the deadline. Raises TimeoutError when it has passed."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("the deadline has passed")
    return seconds


def connect(host: str, port: int, deadline: float) -> socket.socket:
    """Connect to the first address of a host that answers, each having its share of the time. Raises OSError.

    Only the look-up of the name takes as long as the system lets it.
    """
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError = ConnectionError(f"{host} has no address")
    for place, (family, kind, protocol, _, address) in enumerate(addresses):
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(left(deadline) / (len(addresses) - place))
            made.connect(address)
        except OSError as error:
            made.close()
            failure = error
        else:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made
    raise failure


def secure(plain: socket.socket, host: str, context: ssl.SSLContext, deadline: float) -> socket.socket:
    """Return the socket with TLS, its handshake done by the deadline. Raises OSError; the socket is closed then."""
    try:
        plain.settimeout(left(deadline))
        return context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


class TimedSocket(io.RawIOBase):
    """A socket as http.client uses it, whose reads and writes keep the deadline: who drips must not hold the caller.

    http.client closes the socket as soon as it knows that the server will, and reads the rest of the answer through the
    file that it has made before: so close() only lets go, and end() closes.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.deadline = 0.0

    def sendall(self, data: Any) -> None:
        """Send everything by the deadline."""
        self._socket.settimeout(left(self.deadline))
        self._socket.sendall(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._socket.settimeout(left(self.deadline))
        count = self._socket.recv_into(buffer)
        # What arrives may take as long as its size does on the slowest network.
        self.deadline += count / SLOWEST
        return count

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return a reader for one answer."""
        return io.BufferedReader(_Borrowed(self))

    def fileno(self) -> int:
        return self._socket.fileno()

    def interrupt(self) -> None:
        """Make whoever reads or writes on another thread fail at once."""
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go: a reader may still stand."""

    def end(self) -> None:
        """Close the socket."""
        self._socket.close()


class _Borrowed(io.RawIOBase):
    """What one answer is read through: its end leaves the socket open for the next."""

    def __init__(self, timed: TimedSocket) -> None:
        self._timed = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._timed.readinto(buffer)
