"""The life of the service in one process: it starts, ends, may start again, and reads one large body at a time."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ledgence.http import running
from ledgence.http.body import LARGE_BYTES
from ledgence.http.call import Call
from ledgence.http.running import Running
from tests.faults.waiting import wait_until
from tests.http.scene import Scene, make_token, new_task
from tests.http.site import Caller, Site


async def live(site: Site, *events: str) -> None:
    """Let the application go through events of a server's life."""
    left = [{"type": f"lifespan.{event}"} for event in events]

    async def receive() -> dict[str, Any]:
        return left.pop(0)

    async def send(message: Any) -> None:
        assert message["type"].endswith(".complete")

    await site.application({"type": "lifespan"}, receive, send)


def test_it_answers_again_after_its_end(site: Site, scene: Scene) -> None:
    for _ in range(2):
        site.run(live(site, "shutdown"))
        site.ask("GET", f"tasks/{scene.queued}", token=scene.token).assert_ok()
        site.ask("GET", f"tasks/{scene.queued}/result", query="wait_seconds=0.1", token=scene.token).assert_ok()


def test_requests_that_come_while_it_ends_are_busy(site: Site, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, close = threading.Event(), Running.close

    async def close_slowly(self: Running, seconds: float) -> None:
        self._lanes.close()
        await asyncio.to_thread(gate.wait, 20)
        await close(self, seconds)

    monkeypatch.setattr(Running, "close", close_slowly)
    ending = asyncio.run_coroutine_threadsafe(live(site, "shutdown"), site.loop)
    try:
        wait_until(
            lambda: site.ask("GET", f"tasks/{scene.queued}", token=scene.token).status == 429, "the end to begin"
        )
    finally:
        gate.set()
    ending.result(20)
    site.ask("GET", f"tasks/{scene.queued}", token=scene.token).assert_ok()


def test_a_start_that_fails_is_told_and_the_next_request_starts_anew(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Site() as site:
        site.run(live(site, "shutdown"))
        with monkeypatch.context() as patch:
            patch.setattr(running, "DatabaseTaskService", fail)
            for _ in range(2):
                site.ask("GET", "health/live").assert_problem(503, "unavailable")
        site.ask("GET", "health/live").assert_ok()


def fail(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError


def held(monkeypatch: pytest.MonkeyPatch, gate: threading.Event) -> list[int]:
    """Hold the readers of bodies at a gate; tell the sizes of what they read."""
    sizes: list[int] = []
    read: Callable[[Call, bytes], None] = Call.read

    def read_slowly(self: Call, body: bytes) -> None:
        sizes.append(len(body))
        gate.wait(20)
        read(self, body)

    monkeypatch.setattr(Call, "read", read_slowly)
    return sizes


def submission(site: Site, token: str, size: int) -> Caller:
    body = json.dumps(new_task()).encode()
    headers = {"content-type": "application/json"}
    return site.begin("POST", "tasks", body=body + b" " * (size - len(body)), headers=headers, token=token)


def test_one_large_body_is_read_at_a_time_and_small_ones_beside_it(
    site: Site, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, token = threading.Event(), make_token()
    sizes = held(monkeypatch, gate)
    try:
        callers = [submission(site, token, LARGE_BYTES + 1) for _ in range(3)]
        callers += [submission(site, token, LARGE_BYTES) for _ in range(2)]
        wait_until(lambda: len(sizes) == 3, "three that are read")
        assert sorted(sizes) == [LARGE_BYTES, LARGE_BYTES, LARGE_BYTES + 1]
    finally:
        gate.set()
    for caller in callers:
        caller.answer().assert_ok(201)
