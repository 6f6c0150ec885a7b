"""A proxy before a server of SQS that spoils chosen calls: before they have their effect, or after it."""

import contextlib
import json
import socket
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Longer than any client waits.
HANG_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.body)
        return document

    def saying(self, document: dict[str, Any]) -> "Reply":
        return replace(self, body=json.dumps(document).encode())


class Exchange:
    """One call: what is asked, and what may be done with it."""

    def __init__(self, caller: BaseHTTPRequestHandler, port: int, closing: threading.Event) -> None:
        self._caller, self._port, self._closing = caller, port, closing
        self.action = caller.headers["X-Amz-Target"].removeprefix("AmazonSQS.")
        self.document: dict[str, Any] = json.loads(caller.rfile.read(int(caller.headers["Content-Length"])))

    def forward(self, document: dict[str, Any] | None = None) -> Reply:
        """Let the call have its effect, or another one's."""
        body = json.dumps(self.document if document is None else document).encode()
        headers = {name: value for name, value in self._caller.headers.items() if name != "Content-Length"}
        with contextlib.closing(HTTPConnection("127.0.0.1", self._port, timeout=HANG_SECONDS)) as server:
            server.request("POST", self._caller.path, body, headers)
            answer = server.getresponse()
            kept = {
                name: value for name, value in answer.getheaders() if name.lower().startswith(("x-amz", "content-t"))
            }
            return Reply(status=answer.status, body=answer.read(), headers=kept)

    def answer(self, reply: Reply, *, length: int | None = None) -> None:
        self._caller.send_response(reply.status)
        for name, value in reply.headers.items():
            self._caller.send_header(name, value)
        self._caller.send_header("Content-Length", str(len(reply.body) if length is None else length))
        self._caller.end_headers()
        self._caller.wfile.write(reply.body)

    def refuse(self, status: int, code: str) -> None:
        """Answer with an error, as AWS says it."""
        body = json.dumps({"__type": f"com.amazonaws.sqs#{code}", "message": "spoilt"}).encode()
        self.answer(Reply(status=status, body=body, headers={"x-amzn-query-error": f"{code};Sender"}))

    def reset(self) -> None:
        """Break the connection without an answer."""
        connection = self._caller.connection
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._caller.close_connection = True
        connection.close()

    def hang(self) -> None:
        """Wait until the proxy closes, longer than any client does."""
        self._closing.wait(HANG_SECONDS)
        self._caller.close_connection = True

    def hang_until(self, event: threading.Event) -> bool:
        """Wait for an event; return False when the proxy closes before it."""
        while not event.wait(0.02):
            if self._closing.is_set():
                self._caller.close_connection = True
                return False
        return True


type Fault = Callable[[Exchange], None]


def passed(exchange: Exchange) -> None:
    """Nothing goes wrong."""
    exchange.answer(exchange.forward())


def lost(exchange: Exchange) -> None:
    """The call has its effect, and the connection breaks."""
    exchange.forward()
    exchange.reset()


def late(exchange: Exchange) -> None:
    """The call has its effect, and the answer comes when nobody waits any more."""
    exchange.forward()
    exchange.hang()


def truncated(exchange: Exchange) -> None:
    """The call has its effect, and half of the answer comes as if it were the whole."""
    reply = exchange.forward()
    exchange.answer(replace(reply, body=reply.body[: len(reply.body) // 2]))


def cut(exchange: Exchange) -> None:
    """The call has its effect, and the connection breaks within the answer."""
    reply = exchange.forward()
    exchange.answer(replace(reply, body=reply.body[: len(reply.body) // 2]), length=len(reply.body))
    exchange.reset()


def broken_after(exchange: Exchange) -> None:
    """The call has its effect, and the answer is an internal error."""
    exchange.forward()
    exchange.refuse(500, "InternalError")


def broken(exchange: Exchange) -> None:
    exchange.refuse(500, "InternalError")


def unavailable(exchange: Exchange) -> None:
    exchange.refuse(503, "ServiceUnavailable")


def throttled(exchange: Exchange) -> None:
    exchange.refuse(403, "RequestThrottled")


def denied(exchange: Exchange) -> None:
    exchange.refuse(403, "AccessDenied")


def reset(exchange: Exchange) -> None:
    """The connection breaks before the call has its effect."""
    exchange.reset()


def hanging(exchange: Exchange) -> None:
    """No answer comes, and the call has no effect."""
    exchange.hang()


def failing(*indexes: int, code: str = "InternalError", is_senders: bool = False) -> Fault:
    """Some entries of a batch have no effect, and are answered as failed."""

    def fault(exchange: Exchange) -> None:
        entries = exchange.document["Entries"]
        kept = [entry for index, entry in enumerate(entries) if index not in indexes]
        reply = exchange.forward({**exchange.document, "Entries": kept})
        failures = [
            {"Id": entries[index]["Id"], "Code": code, "SenderFault": is_senders, "Message": "spoilt"}
            for index in indexes
        ]
        told = reply.document
        exchange.answer(reply.saying({**told, "Failed": [*told.get("Failed", []), *failures]}))

    return fault


def times(count: int) -> Fault:
    """The call has its effect so often."""

    def fault(exchange: Exchange) -> None:
        *_, last = [exchange.forward() for _ in range(count)]
        exchange.answer(last)

    return fault


def omitting(index: int) -> Fault:
    """An entry of a batch has its effect, and the answer does not tell of it."""

    def fault(exchange: Exchange) -> None:
        reply = exchange.forward()
        told = reply.document
        omitted = exchange.document["Entries"][index]["Id"]
        exchange.answer(reply.saying({**told, "Successful": [e for e in told["Successful"] if e["Id"] != omitted]}))

    return fault


def rewriting(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Fault:
    """A batch has its effect, and what is told of each success is changed."""

    def fault(exchange: Exchange) -> None:
        reply = exchange.forward()
        told = reply.document
        exchange.answer(reply.saying({**told, "Successful": [change(entry) for entry in told["Successful"]]}))

    return fault


def with_another_id(entry: dict[str, Any]) -> dict[str, Any]:
    """What ``rewriting`` takes to tell of entries that nobody sent."""
    return {**entry, "Id": f"not-{entry['Id']}"}


class Hold:
    """A fault that stops calls before they have their effect, or after it, until they are let go; then they go on.

    ``held``: the calls that have come to this point. ``replies``: what those that were let go are answered.
    """

    def __init__(self, *, before: bool) -> None:
        self._is_before = before
        self._let_go = threading.Event()
        self.held: list[Exchange] = []
        self.replies: list[Reply] = []

    def __call__(self, exchange: Exchange) -> None:
        reply = None if self._is_before else exchange.forward()
        self.held.append(exchange)
        if exchange.hang_until(self._let_go):
            reply = reply or exchange.forward()
            self.replies.append(reply)
            exchange.answer(reply)

    def let_go(self) -> None:
        self._let_go.set()


class FaultProxy:
    """Passes calls on, and spoils those that it is told to; ``seen`` are the actions that came."""

    def __init__(self, port: int) -> None:
        self.seen: list[str] = []
        #: Every call of an action is spoilt, when nothing else is planned for it.
        self.always: dict[str, Fault] = {}
        #: What every call of an action says, whatever its caller said, by the action.
        self.says: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._next: defaultdict[str, deque[Fault | None]] = defaultdict(deque)
        self._closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Else each answer waits 40 ms for the acknowledgement of its head.
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                exchange = Exchange(self, port, outer._closing)
                exchange.document |= outer.says.get(exchange.action, {})
                fault = outer._fault_of(exchange.action)
                try:
                    (fault or passed)(exchange)
                except OSError:
                    # The caller gave up and does not read the answer, or the broker is gone and there is none.
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        # Broken connections are what it is for.
        self._server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def spoil(self, action: str, *faults: Fault | None) -> None:
        """Spoil the next calls of an action, one fault each, in order; None lets one pass."""
        with self._lock:
            self._next[action].extend(faults)

    def planned(self, action: str) -> int:
        """Return how many faults of an action have not come to pass."""
        with self._lock:
            return len(self._next[action])

    def calm(self) -> None:
        """Spoil nothing more of what was planned."""
        with self._lock:
            self._next.clear()
            self.always.clear()

    def _fault_of(self, action: str) -> Fault | None:
        with self._lock:
            self.seen.append(action)
            planned = self._next[action]
            return planned.popleft() if planned else self.always.get(action)

    def close(self) -> None:
        """Refuse connections from now on."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def fault_proxy(port: int) -> Iterator[FaultProxy]:
    """Run a proxy before a port of loopback until the block ends."""
    proxy = FaultProxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
