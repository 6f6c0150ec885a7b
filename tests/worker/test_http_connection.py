"""One connection over HTTP against a server that does whatever it likes: every doubt is told, none holds the caller."""

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ledgence_worker.errors import Unavailable
from ledgence_worker.http_connection import Connection, parse_address

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
#: Far above what an answer on loopback takes, far below what a test may.
SECONDS = 20.0

type Script = Callable[[socket.socket, bytes], None]


class Scripted:
    """A server that reads one request at a time and hands each to the next of its scripts."""

    def __init__(self, scripts: list[Script]) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._scripts = scripts
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._scripts:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            with client:
                while self._scripts and (request := read_request(client)):
                    self.requests.append(request)
                    self._scripts.pop(0)(client, request)
                    if client.fileno() < 0:
                        break

    def close(self) -> None:
        self._socket.close()


def read_request(client: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        try:
            part = client.recv(65536)
        except OSError:
            return b""
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    wanted = int(lengths[0].partition(b":")[2]) if lengths else 0
    while len(body) < wanted:
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def talking(*scripts: Script, reply_bytes: int = 1000) -> Iterator[tuple[Connection, Scripted]]:
    server = Scripted(list(scripts))
    connection = Connection(parse_address(server.url), reply_bytes=reply_bytes)
    try:
        yield connection, server
    finally:
        connection.close()
        server.close()


def send(data: bytes) -> Script:
    return lambda client, request: client.sendall(data)


def send_and_close(data: bytes) -> Script:
    def script(client: socket.socket, request: bytes) -> None:
        client.sendall(data)
        client.close()

    return script


def ask(connection: Connection, *, seconds: float = SECONDS, body: bytes | None = b"{}") -> tuple[int, str, bytes]:
    answer = connection.exchange("POST", "/x", {"Content-Type": "application/json"}, body, seconds)
    return answer.status, answer.content_type, answer.body


def test_requests_follow_each_other_on_one_connection():
    with talking(send(OK), send(OK)) as (connection, server):
        assert ask(connection) == ask(connection) == (200, "application/json", b"{}")
        assert server.connections == 1
        assert b"Host: 127.0.0.1" in server.requests[0]


def test_a_connection_that_the_server_closed_is_noticed_before_it_is_used():
    with talking(send_and_close(OK), send(OK)) as (connection, server):
        ask(connection)
        assert connection._socket is not None
        select.select([connection._socket.fileno()], [], [], SECONDS)
        assert ask(connection)[0] == 200
        assert server.connections == 2


@pytest.mark.parametrize("size", [2, 500, 100_000])
def test_an_answer_that_closes_the_connection_is_read_to_its_end(size: int):
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n"
    told = threading.Event()

    def script(client: socket.socket, request: bytes) -> None:
        # The body does not come with the head, and not before the head has been read.
        client.sendall(head.encode())
        assert told.wait(SECONDS)
        client.sendall(b"x" * size)
        client.close()

    with talking(script, send(OK), reply_bytes=size) as (connection, server):
        threading.Timer(0.1, told.set).start()
        assert ask(connection)[2] == b"x" * size
        assert ask(connection)[0] == 200
        assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"\x16\x03\x01\x00\x05hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_whole_answer_is_unknown(answer: bytes):
    with talking(send_and_close(answer), send(OK)) as (connection, _):
        with pytest.raises(Unavailable):
            ask(connection)
        assert ask(connection)[0] == 200


def test_an_answer_without_end_is_given_up():
    answer = OK.replace(b"Content-Length: 2", b"Content-Length: 2000") + b"x" * 1998
    with talking(send_and_close(answer)) as (one, _), pytest.raises(Unavailable, match="more than 1000 bytes"):
        ask(one)


def test_a_server_that_drips_is_given_up_at_the_deadline():
    stop = threading.Event()

    def drip(client: socket.socket, request: bytes) -> None:
        for byte in OK[:-2]:
            client.sendall(bytes([byte]))
            if stop.wait(0.05):
                return

    with talking(drip) as (connection, _):
        began = time.monotonic()
        with pytest.raises(Unavailable, match="deadline|timed out"):
            ask(connection, seconds=0.5)
        assert time.monotonic() - began < 3
        stop.set()


def test_a_server_that_says_nothing_is_given_up_at_the_deadline():
    done = threading.Event()

    def hold(client: socket.socket, request: bytes) -> None:
        done.wait(SECONDS)

    with talking(hold) as (connection, _):
        began = time.monotonic()
        with pytest.raises(Unavailable, match="timed out"):
            ask(connection, seconds=0.3)
        assert time.monotonic() - began < 3
        done.set()


def test_a_large_body_has_the_time_that_it_takes():
    body = b"x" * 1_000_000
    with talking(send(OK)) as (connection, server):
        # A tenth of a second would not be enough for it on the slowest network that must do.
        assert ask(connection, seconds=0.1, body=body)[0] == 200
        assert server.requests[0].endswith(body)


def test_a_large_answer_has_the_time_that_it_takes():
    size = 200_000

    def answer(client: socket.socket, request: bytes) -> None:
        client.sendall(f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode())
        for _ in range(10):
            client.sendall(b"x" * (size // 10))
            time.sleep(0.05)

    # Twice as long as an answer without a body may take, and a quarter of what this one may.
    with talking(answer, reply_bytes=size) as (connection, _):
        assert len(connection.exchange("GET", "/", {}, None, 0.25).body) == size


def test_nobody_there_is_unknown_and_the_next_attempt_connects_anew():
    with talking(send(OK)) as (connection, server):
        address = parse_address(server.url)
        gone = Connection(address._replace(port=1), reply_bytes=1000)
        with pytest.raises(Unavailable, match="refused"):
            ask(gone)
        assert ask(connection)[0] == 200


def test_many_addresses_share_the_time(monkeypatch):
    # Four sockets whose queues are full: nobody answers there.
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(full()) for _ in range(4)]
        addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
        connection = Connection(parse_address("http://many.example"), reply_bytes=1000)
        began = time.monotonic()
        with pytest.raises(Unavailable, match=r"many\.example:80"):
            ask(connection, seconds=0.8)
        assert time.monotonic() - began < 2


@contextmanager
def full() -> Iterator[int]:
    """A port whose queue takes no connection any more."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


def test_a_late_interrupt_costs_no_other_exchange():
    with talking(send(OK), send(OK)) as (connection, _):
        ask(connection)
        connection.interrupt()
        with pytest.raises(Unavailable):
            ask(connection)
        assert ask(connection)[0] == 200


def test_a_redirect_is_an_answer_and_is_not_followed():
    reply = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with talking(send(reply)) as (connection, server):
        assert ask(connection)[0] == 302
        assert len(server.requests) == 1


def test_a_wait_is_interrupted_from_another_thread():
    asked, done = threading.Event(), threading.Event()

    def hold(client: socket.socket, request: bytes) -> None:
        asked.set()
        done.wait(SECONDS)

    with talking(hold) as (connection, _):
        raised: list[BaseException] = []

        def wait() -> None:
            try:
                ask(connection)
            except Unavailable as error:
                raised.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        assert asked.wait(SECONDS)
        connection.interrupt()
        thread.join(SECONDS)
        assert raised and not thread.is_alive()
        done.set()


def test_an_interrupt_before_it_connects_counts_once():
    with talking(send(OK)) as (connection, _):
        connection.interrupt()
        with pytest.raises(Unavailable, match="interrupted"):
            ask(connection)
        assert ask(connection)[0] == 200
