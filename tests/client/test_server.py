"""Which addresses and tokens a client takes, and that it tells nobody the token."""

from typing import Any

import pytest

from ledgence_worker.client import AsyncClient, Client
from ledgence_worker.client.server import check_server
from ledgence_worker.errors import InvalidInput

TOKEN = "ldg_6f1c0d52a7e94b38_V2hhdCBsb29rcyBsaWtlIGEgdG9rZW4gaXMgbm90IG9uZQ"

both = pytest.mark.parametrize("kind", [Client, AsyncClient])


@pytest.mark.parametrize(
    "url",
    [
        "https://tasks.example.com",
        "http://localhost:8000",
        "http://127.0.0.1:1/",
        "http://[::1]:80",
        "http://127.9.9.9",
    ],
)
def test_an_address_where_nobody_listens_is_taken(url: str) -> None:
    check_server(url, allow_plaintext=False)


@pytest.mark.parametrize(
    "url",
    [
        "http://tasks.example.com",
        "http://10.0.0.1",
        "http://localhost.example.com",
        "http://0.0.0.0",
        "http://[fe80::1]",
    ],
)
@both
def test_a_token_is_not_sent_in_clear_unless_that_is_allowed(kind: Any, url: str) -> None:
    with pytest.raises(InvalidInput, match="allow_plaintext=True"):
        kind(url, TOKEN)
    kind(url, TOKEN, allow_plaintext=True)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "tasks.example.com",
        "ftp://tasks.example.com",
        "https://user:hunter2@tasks.example.com",
        "https://tasks.example.com/?key=hunter2",
        "https://tasks.example.com/#hunter2",
        "https://tasks.example.com/ledgence/v1/",
        "https://tasks.example.com:hunter2",
    ],
)
@both
def test_an_address_that_cannot_be_one_is_refused_without_its_secrets(kind: Any, url: str) -> None:
    with pytest.raises(InvalidInput, match="URL") as caught:
        kind(url, TOKEN)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "pässword", "\ud800"])
@both
def test_a_token_that_cannot_be_sent_is_refused_without_its_text(kind: Any, token: str) -> None:
    with pytest.raises(InvalidInput, match="token") as caught:
        kind("https://tasks.example.com", token)
    assert token == "" or token not in str(caught.value)


@both
def test_the_token_stands_in_no_text_of_a_client(kind: Any) -> None:
    client = kind("https://tasks.example.com", TOKEN)
    assert TOKEN not in repr(client)
    assert "tasks.example.com" in repr(client)


@pytest.mark.parametrize("token", [None, ""])
@both
def test_a_token_that_is_not_there_is_told(kind: Any, token: str | None) -> None:
    with pytest.raises(InvalidInput, match="No token was given. Set LEDGENCE_TOKEN, or pass as token"):
        kind("https://tasks.example.com", token)
