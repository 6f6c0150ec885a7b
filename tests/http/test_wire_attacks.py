"""A real server under callers who mean no good: each gets a refusal, nobody gets in, nothing is left behind."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.db import connection

from tests.conftest import address_of
from tests.http.bad_requests import BAD, Bad
from tests.http.scene import Scene, digest, make_token
from tests.http.servers import Server, serving
from tests.http.site import PREFIX, Answer
from tests.http.sockets import Connection, ask, head
from tests.http.test_bad_requests import changed, names
from tests.ledger.actors import execute

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

ID = "01a2295b-6675-71a8-b1ad-bc9e0a4dd915"
MIB = 1024 * 1024
JSON = ("Content-Type", "application/json")
CHUNKED = ("Transfer-Encoding", "chunked")
#: What the server refuses before the application sees it, in words of its own.
BY_THE_SERVER = {"over-long"}


def ask_server(server: Server, bad: Bad, scene: Scene) -> Answer:
    with Connection(server.port) as caller:
        return caller.ask(
            bad.method,
            bad.path.format(**names(scene)),
            body=bad.content(scene),
            headers=list(bad.headers.items()),
            query=bad.query,
            token=bad.token(scene),
        )


@pytest.fixture(scope="module")
def wsgi(django_db_setup: None, django_db_blocker: Any) -> Iterator[Server]:
    """The same service as a Django view, in threads."""
    options = ("--worker-class", "gthread", "--threads", "4")
    with (
        django_db_blocker.unblock(),
        serving(address_of(connection), *options, application="ledgence_project.wsgi:application") as made,
    ):
        yield made


@pytest.mark.parametrize("kind", ["server", "wsgi"])
@pytest.mark.parametrize("group", BAD)
def test_the_server_refuses(group: str, kind: str, request: pytest.FixtureRequest, scene: Scene) -> None:
    server: Server = request.getfixturevalue(kind)
    before, wrong = digest(), {}
    for name, bad in BAD[group].items():
        try:
            answer = ask_server(server, bad, scene)
            if name in BY_THE_SERVER:
                assert answer.status == 414
            else:
                answer.assert_problem(*bad.problem)
            assert changed(before) == set()
        except (AssertionError, OSError) as error:
            wrong[name] = repr(error)
    assert wrong == {}
    ask(server.port, "GET", "health/live").assert_ok()


# Bodies


def test_chunks_without_end_are_refused_where_they_become_too_many(server: Server, scene: Scene) -> None:
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with Connection(server.port) as caller:
        caller.send(head("POST", "tasks", [JSON, CHUNKED], token=scene.token))
        sent = caller.send_all(repeat(chunk, 400))
        caller.answer().assert_problem(413, "invalid_input")
        assert caller.is_closed()
    # The 4 MiB that are taken, and what fits between two sockets.
    assert sent < 16 * MIB


def test_chunks_of_one_byte_are_refused_where_they_become_too_many(server: Server, scene: Scene) -> None:
    with Connection(server.port) as caller:
        caller.send(
            head("POST", "sessions/01a2295b-6675-71a8-b1ad-bc9e0a4dd915/renew", [JSON, CHUNKED], token=scene.token)
        )
        caller.send_all(repeat(b"1\r\n \r\n" * 10_000, 110))
        caller.answer().assert_problem(413, "invalid_input")


@pytest.mark.parametrize("headers", [[CHUNKED], [("Content-Length", str(20 * MIB))]], ids=["chunks", "length"])
def test_a_large_body_without_a_token_is_refused_before_it_is_sent(
    headers: list[tuple[str, str]], server: Server
) -> None:
    path = f"sessions/{ID}/settle"
    with Connection(server.port) as caller:
        caller.send(head("POST", path, [JSON, *headers]))
        caller.answer().assert_problem(401, "unauthenticated")
        assert caller.is_closed()


def test_a_hundred_large_bodies_without_a_token_cost_no_memory(server: Server) -> None:
    path, length = f"sessions/{ID}/settle", ("Content-Length", str(20 * MIB))
    worker = worker_of(server)
    ask(server.port, "GET", "health/live")
    before, peak = worker.memory_info().rss, 0
    start = threading.Barrier(100)

    def attack(_: int) -> Answer:
        with Connection(server.port) as caller:
            start.wait(30)
            caller.send(head("POST", path, [JSON, length]))
            caller.send_all(repeat(b" " * 65536, 320))
            return caller.answer()

    with ThreadPoolExecutor(100) as pool:
        answers = pool.map(attack, range(100))
        for answer in answers:
            peak = max(peak, worker.memory_info().rss)
            answer.assert_problem(401, "unauthenticated")
    # Together they are 2,000 MiB; what is left is the server's own buffers.
    assert peak - before < 150 * MIB


def worker_of(server: Server) -> psutil.Process:
    [worker] = psutil.Process(server.process.pid).children()
    return worker


@pytest.fixture(scope="module")
def impatient(django_db_setup: None, django_db_blocker: Any) -> Iterator[Server]:
    """A server that waits half a second for a body."""
    application = "tests.http.patience:application"
    with django_db_blocker.unblock(), serving(address_of(connection), application=application) as made:
        yield made


def test_a_body_that_is_slow_is_refused_in_time(impatient: Server) -> None:
    token = make_token()
    for headers in ([("Content-Length", "100")], [CHUNKED], [("Content-Length", "100000")]):
        with Connection(impatient.port) as caller:
            caller.send(head("POST", "tasks", [JSON, *headers], token=token))
            caller.answer().assert_problem(408, "unavailable")
            assert caller.is_closed()


def test_a_body_that_drips_is_refused_in_time(impatient: Server) -> None:
    with Connection(impatient.port) as caller:
        caller.send(head("POST", "tasks", [JSON, ("Content-Length", "100000")], token=make_token()))
        dripping = threading.Thread(target=caller.send_all, args=(drip(),))
        dripping.start()
        caller.answer().assert_problem(408, "unavailable")
        dripping.join()


def drip() -> Iterator[bytes]:
    pause = threading.Event()
    for _ in range(100):
        pause.wait(0.05)
        yield b" "


def test_a_body_that_is_cut_short_changes_nothing(server: Server, scene: Scene) -> None:
    before = digest()
    with Connection(server.port) as caller:
        caller.send(head("POST", "tasks", [JSON, ("Content-Length", "1000")], token=scene.token) + b'{"program"')
    ask(server.port, "GET", "tasks", token=scene.token).assert_ok()
    assert digest() == before


def test_a_caller_who_expects_to_be_told_is_told_to_go_on_only_if_admitted(server: Server, scene: Scene) -> None:
    body = b'{"program": "tests.work", "version": "1", "data": "%s"}' % (b"x" * 100_000)
    headers = [JSON, ("Content-Length", str(len(body))), ("Expect", "100-continue")]
    with Connection(server.port) as caller:
        caller.send(head("POST", "tasks", headers))
        # No 100 before it.
        caller.answer().assert_problem(401, "unauthenticated")
    with Connection(server.port) as caller:
        caller.send(head("POST", "tasks", headers, token=scene.token))
        assert caller._socket.recv(100).startswith(b"HTTP/1.1 100 ")
        caller.send(body)
        caller.answer().assert_ok(201)


# Framing


SMUGGLED = b"GET /ledgence/v1/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
FRAMES = {
    "length and chunks": [("Content-Length", "4"), CHUNKED],
    "two lengths": [("Content-Length", "2"), ("Content-Length", "4")],
    "list of lengths": [("Content-Length", "2, 2")],
    "negative length": [("Content-Length", "-1")],
    "length with a sign": [("Content-Length", "+2")],
    "length in hex": [("Content-Length", "0x2")],
    "unknown coding": [("Transfer-Encoding", "xchunked")],
    "gzip chunks": [("Transfer-Encoding", "gzip, chunked")],
    "chunks first": [("Transfer-Encoding", "chunked, identity")],
    "chunks twice": [CHUNKED, CHUNKED],
    "blank in the coding": [("Transfer-Encoding", " chunked\x0b")],
    "blank before the colon": [("Transfer-Encoding ", "chunked")],
}


@pytest.mark.parametrize("name", FRAMES)
def test_what_can_be_framed_in_two_ways_is_refused(name: str, impatient: Server, scene: Scene) -> None:
    before = digest()
    with Connection(impatient.port) as caller:
        caller.send(head("POST", "tasks", [JSON, *FRAMES[name]], token=scene.token) + b"{}\r\n0\r\n\r\n" + SMUGGLED)
        replies = caller.rest()
    assert replies.count(b"HTTP/1.1 ") == 1, replies
    assert 400 <= int(replies.split()[1]) < 600 and replies.split()[1] != b"500"
    assert b'"live"' not in replies
    assert digest() == before


BAD_CHUNKS = {
    "no size": b"x\r\n",
    "negative": b"-1\r\n",
    "huge": b"ffffffffffffffffffff\r\n",
    "longer than told": b"2;a=\r\n{}x",
    "no end of a chunk": b"2\r\n{}0\r\n\r\n",
}


@pytest.mark.parametrize("body", BAD_CHUNKS.values(), ids=list(BAD_CHUNKS))
def test_bad_chunks_are_refused_and_nothing_is_smuggled(body: bytes, impatient: Server, scene: Scene) -> None:
    before = digest()
    with Connection(impatient.port) as caller:
        caller.send(head("POST", "tasks", [JSON, CHUNKED], token=scene.token) + body + SMUGGLED)
        replies = caller.rest()
    assert replies.count(b"HTTP/1.1 ") <= 1, replies
    assert b"HTTP/1.1 500" not in replies and b'"live"' not in replies
    assert digest() == before


@pytest.mark.parametrize("path", ["tasks", "nothing", "tasks/01a2295b-6675-71a8-b1ad-bc9e0a4dd915/cancel"])
def test_the_body_of_a_refused_request_is_not_the_next_one(path: str, server: Server) -> None:
    with Connection(server.port) as caller:
        assert 400 <= caller.ask("POST", path, body=SMUGGLED).status < 500
        if caller.send(head("GET", "health/live", [("Request-Id", "next")])):
            replies = caller.until_quiet()
            assert replies.count(b"HTTP/1.1 ") == replies.count(b"request-id: next") <= 1, replies


# Headers


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [
        ("abc-1.2_3", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("", False),
        ("a b", False),
        ('"><script>', False),
        ("a, b", False),
        ("\xe4", False),
    ],
)
def test_only_a_plain_request_id_is_taken_over(given: str, is_kept: bool, server: Server) -> None:
    answer = ask(server.port, "GET", "health/live", headers=[("Request-Id", given)])
    assert (answer.headers["request-id"] == given) == is_kept
    assert answer.headers["request-id"].isascii()


def test_two_request_ids_are_none(server: Server) -> None:
    answer = ask(server.port, "GET", "health/live", headers=[("Request-Id", "a"), ("Request-Id", "b")])
    assert answer.headers["request-id"] not in ("a", "b")


def test_two_tokens_are_none(server: Server, scene: Scene) -> None:
    twice = [("Authorization", f"Bearer {scene.token}")] * 2
    ask(server.port, "GET", "tasks", headers=twice).assert_problem(401, "unauthenticated")


@pytest.mark.parametrize(
    "lines",
    [
        b"Request-Id: a\r\n b: c\r\n",
        b"Request-Id: a\nX: b\r\n",
        b"Request-Id: a\rX: b\r\n",
        b"Request-Id: a\0b\r\n",
        b": nothing\r\n",
        b"no colon\r\n",
        b"X: " + b"y" * 20_000 + b"\r\n",
        b"X: y\r\n" * 500,
    ],
    ids=["folded", "line feed", "carriage return", "NUL", "no name", "no colon", "huge", "many"],
)
def test_headers_that_are_none_are_refused(lines: bytes, server: Server) -> None:
    with Connection(server.port) as caller:
        caller.send(b"GET " + PREFIX.encode() + b"health/live HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n")
        reply = caller.rest()
    assert reply.startswith(b"HTTP/1.1 4"), reply
    assert reply.count(b"HTTP/1.1") == 1


# Secrets


def test_no_token_stands_in_any_log_or_reply(database_url: str, tmp_path: Path) -> None:
    token, log = make_token(), tmp_path / "log"
    secret = token.rpartition("_")[2]
    environment = {"LOG_LEVEL": "DEBUG", "PYTHONASYNCIODEBUG": "1"}
    with log.open("wb") as output, serving(database_url, environment=environment, output=output) as server:
        replies = [
            ask(server.port, "GET", "tasks", token=token),
            ask(server.port, "GET", "tasks", token=f"{token}x"),
            ask(server.port, "GET", "tasks", token=token[:-1] + "!"),
            ask(server.port, "GET", "tasks", query=f"program={token}"),
            ask(server.port, "POST", "tasks", {"bad": token}, token=token),
        ]
        execute("alter table ledgence_task rename to hidden")
        try:
            replies.append(ask(server.port, "GET", "tasks", token=token))
        finally:
            execute("alter table hidden rename to ledgence_task")
    replies[-1].assert_problem(503, "unavailable")
    assert "hidden" not in replies[-1].json["detail"]
    assert b"request failed" in log.read_bytes()
    for text in (log.read_bytes(), *(reply.body for reply in replies)):
        assert secret.encode() not in text


def test_a_database_that_is_gone_is_told_without_its_address(database_url: str, tmp_path: Path) -> None:
    gone = "postgresql://somebody:password@127.0.0.1:1/nothing"
    with (tmp_path / "log").open("wb") as output, serving(gone, output=output) as server:
        for path in ("tasks", "health/ready"):
            answer = ask(server.port, "GET", path, token=f"ldg_{'0' * 16}_{'A' * 43}")
            assert answer.status == 503
            for word in (b"somebody", b"password", b"127.0.0.1", b"nothing"):
                assert word not in answer.body
        ask(server.port, "GET", "health/live").assert_ok()
