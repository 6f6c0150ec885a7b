"""Both clients over TLS: whom they trust, and the way through a proxy."""

import base64
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgence_worker.client import AsyncClient, Client
from ledgence_worker.errors import InvalidInput, Unavailable
from ledgence_worker.http_tunnel import parse_proxy
from tests.client.conftest import Connect
from tests.client.faults import FaultyServer
from tests.client.proxy import REFUSAL, TunnelProxy
from tests.http.servers import Server
from tests.ledger.actors import PROGRAM, VERSION, submit_task

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

#: A key and a certificate for 127.0.0.1, made for these tests alone.
PEM = Path(__file__).with_name("loopback.pem")


@pytest.fixture
def secure(server: Server) -> Iterator[FaultyServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    made = FaultyServer(server.port, context)
    yield made
    made.close()


@pytest.fixture
def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(PEM))


@pytest.fixture
def proxy() -> Iterator[TunnelProxy]:
    made = TunnelProxy()
    yield made
    made.close()


def test_an_authority_of_ones_own_is_trusted(connect: Connect, secure: FaultyServer, trusting: ssl.SSLContext) -> None:
    client = connect(secure.url, ssl_context=trusting)
    submitted = client.submit(PROGRAM, version=VERSION)
    assert client.get(submitted.id).state == "queued"


def test_a_server_that_nobody_vouches_for_gets_nothing(connect: Connect, secure: FaultyServer) -> None:
    with pytest.raises(Unavailable, match="(?i)certificate"):
        connect(secure.url, tries=2).submit(PROGRAM, version=VERSION)
    assert secure.seen == []


def test_a_proxy_that_is_named_leads_to_the_server(
    connect: Connect, secure: FaultyServer, trusting: ssl.SSLContext, proxy: TunnelProxy, token: str
) -> None:
    client = connect(secure.url, ssl_context=trusting, proxy=f"http://user:p%40ss@127.0.0.1:{proxy.port}")
    task = submit_task()
    for _ in range(2):
        assert client.get(task).id == task
    # One connection for both.
    [asked] = proxy.asked
    assert asked.startswith(f"CONNECT 127.0.0.1:{secure.port} HTTP/1.1\r\n".encode())
    assert base64.b64encode(b"user:p@ss") in asked
    assert token.encode() not in asked


@pytest.mark.parametrize(
    "answer",
    [REFUSAL, b"", b"HTTP/1.1 200", b"SSH-2.0-OpenSSH\r\n\r\n", b"x" * 20_000],
    ids=["refusal", "nothing", "cut", "not_http", "endless"],
)
def test_a_proxy_that_does_not_lead_there_is_a_doubt(
    connect: Connect, secure: FaultyServer, trusting: ssl.SSLContext, proxy: TunnelProxy, answer: bytes
) -> None:
    proxy.answer = answer
    client = connect(secure.url, ssl_context=trusting, proxy=f"http://user:hunter2@127.0.0.1:{proxy.port}", tries=2)
    with pytest.raises(Unavailable) as caught:
        client.get(submit_task())
    assert "hunter2" not in str(caught.value)
    assert len(proxy.asked) == 2
    assert secure.seen == []


@pytest.mark.parametrize(
    "url", ["", "proxy:3128", "https://proxy:3128", "socks5://proxy", "http://u:hunter2@proxy/x", "http://u:hunter2@:1"]
)
def test_a_proxy_that_cannot_be_used_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(InvalidInput, match="proxy's URL") as caught:
        parse_proxy(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_proxy_gets_no_token_to_read(kind: Any) -> None:
    with pytest.raises(InvalidInput, match="https alone"):
        kind("http://localhost:1", "token", proxy="http://127.0.0.1:3128")
