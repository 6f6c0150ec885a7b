"""Many workers at once, each with a socket of its own, in one thread."""

import asyncio
import json
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Self
from uuid import UUID, uuid4

from tests.http.scene import new_session
from tests.http.sockets import head

PATIENCE_SECONDS = 60.0


class Member:
    """One worker process, as far as the service sees: a session, and a connection on which it asks for work."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self.session = uuid4()
        self.sequence = 0

    async def open(self, **opening: Any) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        status, _ = await self.ask("PUT", f"sessions/{self.session}", new_session(**opening))
        assert status == 200

    async def acquire(self, wait: float) -> list[UUID]:
        """Ask for the next task, and return the ids of what was given."""
        self.sequence += 1
        body = {"channel": 0, "sequence": self.sequence, "capacity": 1, "wait_seconds": wait}
        status, document = await self.ask("POST", f"sessions/{self.session}/acquire", body)
        assert status == 200, document
        return [UUID(one["task_id"]) for one in document.get("assignments", ())]

    async def ask(self, method: str, path: str, document: object) -> tuple[int, Any]:
        body = json.dumps(document).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        self._writer.write(head(method, path, headers, token=self._token) + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        length = next(int(line[15:]) for line in lines if line.lower().startswith("content-length:"))
        return int(lines[0].split()[1]), json.loads(await self._reader.readexactly(length))

    def hang_up(self) -> None:
        self._writer.transport.abort()


class Crowd:
    """Workers whose sessions are open, on an event loop of their own. Use it as a context manager."""

    def __init__(self, port: int, token: str, count: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="crowd")
        self.members = [Member(port, token) for _ in range(count)]

    def __enter__(self) -> Self:
        self._thread.start()
        for at in range(0, len(self.members), 50):
            self.run(self._open(self.members[at : at + 50]))
        return self

    async def _open(self, members: list[Member]) -> None:
        await asyncio.gather(*(member.open() for member in members))

    def __exit__(self, *_: object) -> None:
        self.run(self._leave())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()

    async def _leave(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        for member in self.members:
            member.hang_up()

    def begin(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.begin(coroutine).result(PATIENCE_SECONDS)

    def ask_for_work(self, wait: float) -> list[Future[list[UUID]]]:
        """Let everybody ask for work."""
        return [self.begin(member.acquire(wait)) for member in self.members]
