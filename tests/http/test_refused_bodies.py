"""A refusal reaches callers that are still sending their body: it is read to its end first, if that is near."""

import asyncio
import http.client
from typing import Any

import pytest

from ledgence.http import body
from ledgence_worker.limits import SETTLE_BYTES
from tests.http.servers import Server
from tests.http.site import PREFIX, Site

PART = 1024 * 1024
JSON = ("content-type", "application/json")
#: It takes the largest bodies.
PATH = "sessions/00000000-0000-4000-8000-000000000000/settle"


class Sender:
    """Sends a body part by part, and then nothing more."""

    def __init__(self, parts: int) -> None:
        self.left = parts

    async def __call__(self) -> dict[str, Any]:
        self.left -= 1
        return {"type": "http.request", "body": b" " * PART, "more_body": self.left > 0}


@pytest.mark.parametrize(
    ("headers", "status", "is_read"),
    [
        ({"content-length": str(8 * PART)}, 401, True),
        ({"content-length": str(SETTLE_BYTES + 1)}, 413, True),
        ({"content-length": str(body.DROPPED_BYTES_MAX + 1)}, 413, False),
        ({"transfer-encoding": "chunked"}, 401, False),
        ({"content-length": str(8 * PART), "expect": "100-continue"}, 401, False),
    ],
    ids=["near end", "too large", "far end", "no known end", "not sent yet"],
)
def test_what_is_left_of_a_refused_body_is_read_if_its_end_is_near(headers, status, is_read, site: Site) -> None:
    sender = Sender(8)
    answer = site.ask("POST", PATH, headers=dict([*headers.items(), JSON]), receive=sender)
    answer.assert_problem(status, "unauthenticated" if status == 401 else "invalid_input")
    assert sender.left == (0 if is_read else 8)
    assert ("connection" in answer.headers) != is_read


def test_a_caller_that_stops_sending_is_answered_in_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "DROPPED_SECONDS", 0.05)
    answer = site.ask("POST", PATH, headers=[("content-length", str(PART)), JSON], receive=be_silent)
    answer.assert_problem(401, "unauthenticated")
    assert answer.headers["connection"] == "close"


async def be_silent() -> dict[str, Any]:
    never: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    return await never


@pytest.mark.process
@pytest.mark.slow
def test_a_large_body_is_refused_on_a_connection_that_lasts(server: Server) -> None:
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        for size, status in ((SETTLE_BYTES + 1, 413), (PART, 401)) * 5:
            client.request("POST", f"{PREFIX}{PATH}", b" " * size, {"Content-Type": "application/json"})
            reply = client.getresponse()
            reply.read()
            assert (reply.status, reply.will_close) == (status, False)
    finally:
        client.close()
