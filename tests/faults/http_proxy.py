"""A proxy before the task service that does to chosen requests what networks, and proxies that mean well, do.

It reads whole requests and replies of HTTP/1.1, and sends each request to the server on a connection of its own. When
the client hangs up, so does it.
"""

import contextlib
import re
import select
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

READ_BYTES = 64 * 1024
#: Far above every client's deadline.
HANG_UP_SECONDS = 60.0
PAGE = b"<html><body><h1>The service is being updated</h1></body></html>"
LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)


class Fault(StrEnum):
    """What happens to one request. Where the name does not tell, the server has carried it out."""

    # The connection is closed instead of the reply.
    LOST_REPLY = "lost_reply"
    RESET_BEFORE = "reset_before"
    RESET_AFTER = "reset_after"
    # The reply is held back until the client gives up.
    LATE_REPLY = "late_reply"
    # The request itself is held back until the client gives up, and carried out then, beside its repeat.
    LATE_REQUEST = "late_request"
    # Half of the request reaches the server, half of the reply the client.
    CUT_REQUEST = "cut_request"
    CUT_REPLY = "cut_reply"
    PAGE_502_BEFORE = "page_502_before"
    PAGE_502_AFTER = "page_502_after"
    PAGE_200_BEFORE = "page_200_before"
    PAGE_200_AFTER = "page_200_after"
    # A gateway's error in JSON, and not the service's.
    FOREIGN_503 = "foreign_503"
    # To an address where the server would carry the request out.
    REDIRECT = "redirect"
    # The server gets it twice: one after the other, or both at once.
    TWICE = "twice"
    AT_ONCE = "at_once"


EVERY_FAULT = tuple(Fault)


class HungUp(Exception):
    """The client has gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A whole request or reply. ``operation`` is the last word of a request's address that is no id."""

    head: bytes
    body: bytes

    @property
    def whole(self) -> bytes:
        return self.head + self.body

    @property
    def operation(self) -> str:
        method, path, _ = self.head.split(b" ", 2)
        *_, above, last = path.partition(b"?")[0].decode().split("/")
        if method == b"PUT":
            return "open"
        # The settler's request for work, which settles as well.
        return "exchange" if last == "acquire" and b'"settlements"' in self.body else last


class HttpProxy:
    """Forwards from ``port`` to the server's port until closed. ``inflicted`` is what it has done, in order."""

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self._lock = threading.Lock()
        self._planned: dict[str, deque[Fault | None]] = {}
        self._choose: Callable[[str], Fault | None] = lambda operation: None
        self.inflicted: list[tuple[str, Fault]] = []
        self.seen: Counter[str] = Counter()
        self._flows = threading.Event()
        self._flows.set()
        self._open: set[socket.socket] = set()
        self._listen(0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def inflict(self, operation: str, *faults: Fault | None) -> None:
        """Plan the next requests of an operation, one after the other; None lets one pass."""
        with self._lock:
            self._planned.setdefault(operation, deque()).extend(faults)

    def inflict_by(self, choose: Callable[[str], Fault | None]) -> None:
        """Let a function decide about every request for which nothing is planned, one at a time."""
        with self._lock:
            self._choose = choose

    def pending(self) -> dict[str, list[Fault | None]]:
        """Return what is planned and has not happened."""
        with self._lock:
            return {operation: list(faults) for operation, faults in self._planned.items() if faults}

    def freeze(self) -> None:
        """Let nothing through any more; connections stay open, and new ones are accepted."""
        self._flows.clear()

    def thaw(self) -> None:
        """Let through what was held back, and everything after it."""
        self._flows.set()

    def cut(self) -> None:
        """Cut all connections and refuse new ones."""
        # Closing alone would not wake the thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        with self._lock:
            for end in self._open:
                _reset(end)

    def mend(self) -> None:
        """Take connections again, on the same port."""
        self._listen(self.port)

    def close(self) -> None:
        self._flows.set()
        self.cut()

    def _listen(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", port), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._accepting.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with self._lock:
            self._open.add(client)
        try:
            with contextlib.suppress(OSError, HungUp):
                while True:
                    request = read_message(client)
                    if not self._act(self._next(request.operation), client, request):
                        break
        finally:
            with self._lock:
                self._open.discard(client)
                client.close()

    def _next(self, operation: str) -> Fault | None:
        with self._lock:
            self.seen[operation] += 1
            planned = self._planned.get(operation)
            fault = planned.popleft() if planned else self._choose(operation)
            if fault is not None:
                self.inflicted.append((operation, fault))
            return fault

    def _act(self, fault: Fault | None, client: socket.socket, request: Message) -> bool:
        """Do to a request what is planned; return whether the connection goes on."""
        match fault:
            case None:
                self._reply(client, self._ask(request, client).whole)
            case Fault.TWICE:
                self._ask(request, client)
                self._reply(client, self._ask(request, client).whole)
            case Fault.AT_ONCE:
                self._reply(client, self._ask_at_once(request, client).whole)
            case Fault.PAGE_502_BEFORE | Fault.PAGE_200_BEFORE | Fault.FOREIGN_503 | Fault.REDIRECT:
                self._reply(client, self._own(fault, request))
            case Fault.PAGE_502_AFTER | Fault.PAGE_200_AFTER:
                self._ask(request, client)
                self._reply(client, self._own(fault, request))
            case _:
                self._break(fault, client, request)
                return False
        return True

    def _break(self, fault: Fault, client: socket.socket, request: Message) -> None:
        if fault is Fault.LATE_REQUEST:
            await_hang_up(client)
            self._ask(request)
        elif fault is Fault.CUT_REQUEST:
            with self._connect() as server:
                server.sendall(request.whole[: len(request.head) + len(request.body) // 2] if request.body else b"POST")
        elif fault is not Fault.RESET_BEFORE:
            reply = self._ask(request, client)
            if fault is Fault.LATE_REPLY:
                await_hang_up(client)
            elif fault is Fault.CUT_REPLY:
                client.sendall(reply.whole[: len(reply.head) + len(reply.body) // 2])
        if fault in (Fault.RESET_BEFORE, Fault.RESET_AFTER):
            _reset(client)

    def _own(self, fault: Fault, request: Message) -> bytes:
        match fault:
            case Fault.FOREIGN_503:
                return reply_of("503 Service Unavailable", "application/json", b'{"message":"no upstream"}')
            case Fault.REDIRECT:
                address = f"http://127.0.0.1:{self.server_port}{request.head.split(b' ', 2)[1].decode()}"
                return reply_of("307 Temporary Redirect", "text/html", PAGE, f"Location: {address}\r\n")
            case Fault.PAGE_200_BEFORE | Fault.PAGE_200_AFTER:
                return reply_of("200 OK", "text/html", PAGE)
            case _:
                return reply_of("502 Bad Gateway", "text/html", PAGE)

    def _ask_at_once(self, request: Message, client: socket.socket) -> Message:
        other = threading.Thread(target=self._ask_in_vain, args=(request,), daemon=True)
        other.start()
        reply = self._ask(request, client)
        other.join()
        return reply

    def _ask_in_vain(self, request: Message) -> None:
        with contextlib.suppress(OSError, HungUp):
            self._ask(request)

    def _ask(self, request: Message, client: socket.socket | None = None) -> Message:
        """Return the server's reply; hang up on the server when the client does."""
        with self._connect() as server:
            server.sendall(request.whole)
            if client is not None:
                ready, _, _ = select.select([server, client], [], [])
                if server not in ready:
                    # Clients send nothing while they wait, so this is the end of the connection.
                    self._flows.wait()
                    raise HungUp
            return read_message(server)

    def _connect(self) -> socket.socket:
        self._flows.wait()
        return socket.create_connection(("127.0.0.1", self.server_port))

    def _reply(self, client: socket.socket, content: bytes) -> None:
        self._flows.wait()
        client.sendall(content)


def read_message(source: socket.socket) -> Message:
    """Read a whole message. Raises HungUp when there is none."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _receive(source)
    head, _, body = received.partition(b"\r\n\r\n")
    length = LENGTH.search(head)
    parts, missing = [body], (int(length[1]) if length else 0) - len(body)
    while missing > 0:
        parts.append(_receive(source))
        missing -= len(parts[-1])
    return Message(head=head + b"\r\n\r\n", body=b"".join(parts))


def reply_of(status: str, content_type: str, body: bytes, headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def await_hang_up(client: socket.socket) -> None:
    """Wait until a client that waits for its reply gives up."""
    ready, _, _ = select.select([client], [], [], HANG_UP_SECONDS)
    assert ready, "the client has no deadline"


def _receive(source: socket.socket) -> bytes:
    part = source.recv(READ_BYTES)
    if not part:
        raise HungUp
    return part


def _reset(end: socket.socket) -> None:
    """Wake the thread that serves a connection; its close will be a reset to the other side."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RD)
