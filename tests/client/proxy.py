"""A proxy on the loopback interface that opens tunnels, and remembers whereto and for whom."""

import contextlib
import socket
import threading
from typing import Final

REFUSAL: Final = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"


class TunnelProxy:
    """Opens a tunnel for each CONNECT, or gives ``answer`` instead. ``asked`` holds the heads of the requests."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.answer: bytes | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._open:
            _hang_up(end)
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                self._open.append(caller)
                threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        with contextlib.suppress(OSError):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += caller.recv(1)
            self.asked.append(head)
            if self.answer is not None:
                caller.sendall(self.answer)
                _hang_up(caller)
                return
            host, _, port = head.split()[1].decode().rpartition(":")
            server = socket.create_connection((host, int(port)))
            self._open.append(server)
            caller.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            threading.Thread(target=_pump, args=(server, caller), daemon=True).start()
            _pump(caller, server)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    _hang_up(source)
    _hang_up(target)


def _hang_up(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
