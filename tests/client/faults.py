"""A server on the loopback interface that hands requests on to the real one and spoils what comes back."""

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

DRIP_SECONDS: Final = 0.05
#: No drip goes on for longer, whatever a client does.
DRIPS_MAX: Final = 400


class Fault(StrEnum):
    """What the caller sees of a request that the real server has carried out."""

    CLOSE = "close"
    RESET = "reset"
    TRUNCATE = "truncate"
    PAGE = "page"
    REDIRECT = "redirect"
    OTHER_TYPE = "other_type"
    OTHER_CODE = "other_code"
    UNKNOWN_CODE = "unknown_code"
    EMPTY = "empty"
    COMPRESSED = "compressed"
    NOT_HTTP = "not_http"
    # These go on until the caller hangs up.
    SILENCE = "silence"
    DRIP_HEAD = "drip_head"
    DRIP_BODY = "drip_body"
    FLOOD = "flood"


ENDLESS: Final = (Fault.SILENCE, Fault.DRIP_HEAD, Fault.DRIP_BODY, Fault.FLOOD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request as it came."""

    method: str
    path: str
    body: bytes


class FaultyServer:
    """Spoils the answers to the next requests as ``plan`` says, in its order; then all of them as ``always`` says."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self.plan: list[Fault] = []
        self.always: Fault | None = None
        self.seen: list[Seen] = []
        self.redirected = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.answer(self, port)

            do_POST = do_GET  # noqa: N815 - as http.server wants it

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        # Callers hang up on purpose.
        self._server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self.url = f"{'http' if context is None else 'https'}://127.0.0.1:{self.port}"
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, caller: BaseHTTPRequestHandler, port: int) -> None:
        """Hand one request on, and its answer back, spoilt as planned."""
        body = caller.rfile.read(int(caller.headers.get("Content-Length", 0)))
        if caller.path == "/elsewhere":
            self.redirected += 1
        self.seen.append(Seen(method=str(caller.command), path=caller.path, body=body))
        fault = self.plan.pop(0) if self.plan else self.always
        real = HTTPConnection("127.0.0.1", port, timeout=30)
        with contextlib.closing(real):
            real.request(str(caller.command), caller.path, body or None, dict(caller.headers))
            response = real.getresponse()
            status, content_type, content = response.status, response.headers["Content-Type"], response.read()
        if fault is None:
            _send(caller, status, content, content_type)
            return
        caller.close_connection = True
        _SPOIL[fault](self, caller, content)

    def endless(self, caller: BaseHTTPRequestHandler, part: bytes, pause: float) -> None:
        """Send parts until the caller hangs up."""
        with contextlib.suppress(OSError):
            for _ in range(DRIPS_MAX):
                if self._is_closing.wait(pause) or _has_hung_up(caller.connection):
                    return
                caller.connection.sendall(part)


type Spoil = Callable[[FaultyServer, BaseHTTPRequestHandler, bytes], None]


def _send(
    caller: BaseHTTPRequestHandler, status: int, body: bytes, content_type: str = "application/json", **headers: str
) -> None:
    caller.send_response(status)
    headers = {"Content-Type": content_type, "Content-Length": str(len(body))} | headers
    for name, value in headers.items():
        caller.send_header(name.replace("_", "-"), value)
    caller.end_headers()
    caller.wfile.write(body)


def _problem(code: str) -> bytes:
    return f'{{"code":"{code}","detail":"spoilt"}}'.encode()


def _reset(server: FaultyServer, caller: BaseHTTPRequestHandler, content: bytes) -> None:
    caller.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    caller.connection.close()


def _truncate(server: FaultyServer, caller: BaseHTTPRequestHandler, content: bytes) -> None:
    _send(caller, 200, content[:-1], Content_Length=str(len(content)))


def _endless(head: bytes, part: bytes, pause: float = DRIP_SECONDS) -> Spoil:
    def spoil(server: FaultyServer, caller: BaseHTTPRequestHandler, content: bytes) -> None:
        caller.connection.sendall(head)
        server.endless(caller, part, pause)

    return spoil


def _has_hung_up(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.setblocking(True)


_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PROBLEM: Final = "application/problem+json"

_SPOIL: Final[dict[Fault, Spoil]] = {
    Fault.CLOSE: lambda server, caller, content: None,
    Fault.RESET: _reset,
    Fault.TRUNCATE: _truncate,
    Fault.PAGE: lambda server, caller, content: _send(caller, 502, b"<h1>Bad Gateway</h1>", "text/html"),
    Fault.REDIRECT: lambda server, caller, content: _send(caller, 307, b"", "text/html", Location="/elsewhere"),
    Fault.OTHER_TYPE: lambda server, caller, content: _send(caller, 200, content, "text/html"),
    Fault.OTHER_CODE: lambda server, caller, content: _send(caller, 500, _problem("conflict"), PROBLEM),
    Fault.UNKNOWN_CODE: lambda server, caller, content: _send(caller, 409, _problem("spoilt"), PROBLEM),
    Fault.EMPTY: lambda server, caller, content: _send(caller, 200, b""),
    Fault.COMPRESSED: lambda server, caller, content: _send(caller, 200, b"\x1f\x8b\x08\0", Content_Encoding="gzip"),
    Fault.NOT_HTTP: lambda server, caller, content: caller.connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"),
    Fault.SILENCE: _endless(b"", b""),
    Fault.DRIP_HEAD: _endless(_HEAD + b"X: ", b"x"),
    Fault.DRIP_BODY: _endless(_HEAD + b"Content-Length: 100000\r\n\r\n", b" "),
    Fault.FLOOD: _endless(_HEAD + b"Content-Length: 100000000000\r\n\r\n", b" " * 1_000_000, 0.0),
}
