"""A server that speaks the JSON protocol of SQS as it is told, and keeps what it was asked."""

import json
import ssl
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer. ``cut``: the connection ends after so many bytes of it; ``hang``: it never comes."""

    body: bytes = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    hang: bool = False


@dataclass(frozen=True, kw_only=True)
class Request:
    action: str
    body: dict[str, Any]
    headers: dict[str, str]


def told(**body: Any) -> Reply:
    """Return an answer with these members."""
    return Reply(body=json.dumps(body).encode())


def error(code: str, *, status: int = 400, text: str = "No.", was: str = "") -> Reply:
    """Return an error as AWS answers it; ``was``: how the header names it that says how it was once called."""
    headers = {"x-amzn-query-error": f"{was or code};Sender"}
    body = {"__type": f"com.amazonaws.sqs#{code}", "message": text}
    return Reply(body=json.dumps(body).encode(), status=status, headers=headers)


class SqsServer:
    """What it is told to answer is answered once each, in order; after that it answers ``{}``."""

    def __init__(self, scheme: str, port: int) -> None:
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.queue_url = f"{self.url}/123456789012/mail"
        self.replies: deque[Reply] = deque()
        self.requests: list[Request] = []
        self.connections = 0
        self.released = threading.Event()

    @property
    def actions(self) -> list[str]:
        return [request.action for request in self.requests]


@contextmanager
def serve(tls: ssl.SSLContext | None = None) -> Iterator[SqsServer]:
    """Serve on a port of loopback until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            script.connections += 1

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            action = self.headers["X-Amz-Target"].removeprefix("AmazonSQS.")
            script.requests.append(Request(action=action, body=json.loads(content), headers=dict(self.headers)))
            reply = script.replies.popleft() if script.replies else Reply()
            if reply.hang:
                script.released.wait()
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(reply.body)))
            if reply.cut is None:
                self.end_headers()
                self.wfile.write(reply.body)
                return
            if reply.cut:
                self.end_headers()
                self.wfile.write(reply.body[: reply.cut])
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        script = SqsServer("http" if tls is None else "https", server.server_address[1])
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield script
        finally:
            script.released.set()
            server.shutdown()
            thread.join()
