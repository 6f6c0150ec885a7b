"""The command ledgence-worker connect: what it refuses before anything starts, and what it makes of its options."""

import sys
from collections.abc import Iterator

import pytest

from ledgence_worker.connect import main
from ledgence_worker.errors import InvalidInput
from ledgence_worker.http_connection import parse_address
from ledgence_worker.http_replies import url_of
from ledgence_worker.http_service import HttpTaskService

OPTIONS = ["connect", "--server", "http://127.0.0.1:1", "--import", "programs"]


@pytest.fixture(autouse=True)
def path() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*OPTIONS, *arguments]) == 2
    return capsys.readouterr().err


def test_without_a_token_it_says_where_to_put_it(monkeypatch, capsys):
    monkeypatch.delenv("LEDGENCE_TOKEN", raising=False)
    assert "set LEDGENCE_TOKEN to a token with the role work" in refusal(capsys)


@pytest.mark.parametrize("token", ["two words", "ldg_\u00e4", "line\nbreak"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(monkeypatch, capsys, token):
    monkeypatch.setenv("LEDGENCE_TOKEN", token)
    told = refusal(capsys)
    assert "ledgence_token issue" in told
    assert token not in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--import", "not a module"], "--import 'not a module' is not the name of a module"),
        (["--concurrency", "0"], "concurrency"),
        (["--receive-wait", "21"], "receive_wait_seconds"),
        (["--delivery-config", "/nowhere/delivery.toml"], "/nowhere/delivery.toml"),
        (["--server", "ftp://host"], "http or https"),
        (["--server", "https://user:secret@host"], "must not hold a user"),
        (["--server", "https://host/?a=b"], "must not hold a user"),
        (["--server", "https://host:port"], "cannot be read"),
        (["--server", "https://host/ledgence/v1/"], "must end before /ledgence/v1"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(monkeypatch, capsys, arguments, told):
    monkeypatch.setenv("LEDGENCE_TOKEN", "ldg_x")
    error = refusal(capsys, *arguments)
    assert told in error
    assert "secret" not in error


def test_an_address_may_have_a_path_and_an_own_port():
    assert parse_address("https://example.com/tasks/") == (True, "example.com", 443, "/tasks")
    assert parse_address("http://[::1]:8000") == (False, "::1", 8000, "")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://example.com", "https://example.com:443"),
        ("http://localhost:8000/tasks/", "http://localhost:8000/tasks"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_an_address_is_told_whole(url, told):
    assert url_of(parse_address(url)) == told


@pytest.mark.parametrize(
    ("url", "is_told"),
    [("http://web:8000", True), ("http://10.0.0.1", True), ("http://127.0.0.1:1", False), ("https://web", False)],
)
def test_a_token_that_others_could_hear_is_warned_of(caplog, url, is_told):
    HttpTaskService(url, "ldg_x")
    assert ("the token travels in clear over a network" in caplog.text) is is_told


def test_the_token_stands_in_no_text_of_the_service():
    service = HttpTaskService("http://127.0.0.1:1", "ldg_secret")
    assert "ldg_secret" not in repr(service)
    with pytest.raises(InvalidInput):
        HttpTaskService("http://127.0.0.1:1", "")
