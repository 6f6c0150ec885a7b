"""A mistyped address: the worker asks again as ever, and tells once what to look at."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from ledgence_worker.errors import Unavailable
from ledgence_worker.http_service import HttpTaskService
from ledgence_worker.protocol import OpenSession

#: A key and a certificate for 127.0.0.1, made for tests alone, which nobody trusts.
PEM = Path(__file__).parents[1] / "client" / "loopback.pem"
PAGE = b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"
COMMAND = OpenSession(
    session_id=UUID(int=1),
    name="tests",
    host="tests",
    pid=1,
    version="1",
    concurrency=1,
    tenant="default",
    namespace="default",
    queues=(),
    exclude_queues=(),
    catalogue=(),
)


@contextmanager
def listening(answer: bytes = b"", *, is_secure: bool = False) -> Iterator[int]:
    """Let a server of another kind listen on a port: it answers every connection so, and closes it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                with (
                    contextlib.suppress(OSError),
                    client,
                    context.wrap_socket(client, server_side=True) if is_secure else client as talking,
                ):
                    talking.recv(65536)
                    talking.sendall(answer)
                    # Closed with something unread, the answer could be lost on its way.
                    talking.shutdown(socket.SHUT_WR)
                    while talking.recv(65536):
                        pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def hints(caplog: pytest.LogCaptureFixture, url: str) -> list[str]:
    """Open a session twice, in vain, and return what was hinted."""
    with closing(HttpTaskService(url, "ldg_x")) as service:
        for _ in range(2):
            with pytest.raises(Unavailable):
                service.open_session(COMMAND)
    return [record.getMessage() for record in caplog.records if "hint=" in record.getMessage()]


def test_https_to_a_port_without_tls_is_told(caplog):
    with listening(PAGE % b"400 Bad Request") as port:
        [told] = hints(caplog, f"https://127.0.0.1:{port}")
    assert f"server=https://127.0.0.1:{port}" in told
    assert "http without TLS: look at scheme and port of --server" in told


def test_http_to_a_port_with_tls_is_told(caplog):
    with listening(is_secure=True) as port:
        [told] = hints(caplog, f"http://127.0.0.1:{port}")
    assert "may speak https: look at scheme and port of --server" in told


def test_a_certificate_that_is_not_trusted_is_told(caplog):
    with listening(is_secure=True) as port:
        [told] = hints(caplog, f"https://127.0.0.1:{port}")
    assert "SSL_CERT_FILE" in told


def test_a_port_on_which_nobody_listens_is_told(caplog):
    with listening() as port:
        pass
    [told] = hints(caplog, f"http://127.0.0.1:{port}")
    assert "look at host and port of --server" in told


@pytest.mark.parametrize("status", ["301 Moved", "404 Not Found", "500 Error"])
def test_the_page_of_another_server_is_told_by_the_error_itself(caplog, status):
    with listening(PAGE % status.encode()) as port:
        assert hints(caplog, f"http://127.0.0.1:{port}") == []
        with (
            closing(HttpTaskService(f"http://127.0.0.1:{port}", "ldg_x")) as service,
            pytest.raises(Unavailable, match="look at the server's address"),
        ):
            service.open_session(COMMAND)
