"""The task service in this process: the ASGI application on an event loop of its own, asked by hand-made scopes."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ledgence.asgi import wrap

PREFIX = "/ledgence/v1/"
PATIENCE_SECONDS = 30.0

type Receive = Callable[[], Awaitable[dict[str, Any]]]
type Headers = Iterable[tuple[str, str]] | Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. ``headers`` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def assert_problem(self, status: int, code: str) -> str:
        """Check that this is a typed problem and return its detail."""
        assert self.status == status, (self.status, self.body)
        assert self.headers["content-type"] == "application/problem+json"
        assert_common(self)
        document = self.json
        assert document["type"] == f"urn:ledgence:problem:{code}"
        assert (document["code"], document["status"]) == (code, status)
        assert document["title"]
        assert document["detail"]
        return str(document["detail"])

    def assert_ok(self, status: int = 200) -> Any:
        """Check that this is an ordinary reply and return its document."""
        assert self.status == status, (self.status, self.body)
        assert self.headers["content-type"] == "application/json"
        assert_common(self)
        return self.json


def assert_common(answer: Answer) -> None:
    assert answer.headers["request-id"]
    assert answer.headers["cache-control"] == "no-store"


class Caller:
    """One caller of the application: what it has sent, whether it is still there, and what it got."""

    def __init__(self, site: "Site", scope: dict[str, Any], body: bytes, receive: Receive | None) -> None:
        self._site = site
        self._gone = asyncio.Event()
        self._receive_next = receive
        self._body: bytes | None = body
        self._sent: list[dict[str, Any]] = []
        self.future: Future[None] = asyncio.run_coroutine_threadsafe(self._run(scope), site.loop)

    async def _run(self, scope: dict[str, Any]) -> None:
        await self._site.application(scope, self._receive_next or self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if not self._gone.is_set():
            self._sent.append(message)

    def hang_up(self) -> None:
        """Be gone."""
        self._site.loop.call_soon_threadsafe(self._gone.set)

    def is_answered(self) -> bool:
        return self.future.done()

    def answer(self, seconds: float = PATIENCE_SECONDS) -> Answer:
        """Wait for the answer and return it."""
        self.future.result(seconds)
        start, *rest = self._sent
        headers = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
        return Answer(status=start["status"], headers=headers, body=b"".join(part["body"] for part in rest))


class Site:
    """The application and its event loop. Use it as a context manager."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.reached: list[str] = []
        self.application = wrap(self._next, housekeeping=False)
        self._thread = threading.Thread(target=self.loop.run_forever, name="site")
        self._events: asyncio.Queue[str] = asyncio.Queue()
        self._told: asyncio.Queue[str] = asyncio.Queue()

    def __enter__(self) -> "Site":
        self._thread.start()
        self._life = asyncio.run_coroutine_threadsafe(self._live(), self.loop)
        self.run(self._tell("startup"))
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._tell("shutdown"))
        self._life.result(PATIENCE_SECONDS)
        self.run(self._settle())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self.loop.close()

    async def _settle(self) -> None:
        """Wait for what was cancelled."""
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*rest, return_exceptions=True)

    @property
    def tasks(self) -> int:
        """How many tasks of asyncio run beside the one of the application's life."""

        async def count() -> int:
            return len(asyncio.all_tasks()) - 2

        found: int = self.run(count())
        return found

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine on the loop and return what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE_SECONDS)

    async def _next(self, scope: Any, receive: Any, send: Any) -> None:
        self.reached.append(scope["path"])
        await send({"type": "http.response.start", "status": 299, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b""})

    async def _live(self) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": f"lifespan.{await self._events.get()}"}

        async def send(message: Any) -> None:
            await self._told.put(message["type"])

        await self.application({"type": "lifespan"}, receive, send)

    async def _tell(self, event: str) -> None:
        await self._events.put(event)
        assert await self._told.get() == f"lifespan.{event}.complete"

    def begin(
        self,
        method: str,
        path: str,
        document: object = None,
        *,
        token: str | None = None,
        headers: Headers = (),
        body: bytes | None = None,
        query: str = "",
        receive: Receive | None = None,
    ) -> Caller:
        """Begin a request; ``path`` is below the prefix unless it begins with a slash."""
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        if document is not None:
            body = json.dumps(document).encode()
            pairs.append(("content-type", "application/json"))
        if body is not None and not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in pairs):
            pairs.append(("content-length", str(len(body))))
        if token is not None:
            pairs.append(("authorization", f"Bearer {token}"))
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path if path.startswith("/") else PREFIX + path,
            "root_path": "",
            "query_string": query.encode("latin-1"),
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs],
        }
        return Caller(self, scope, body or b"", receive)

    def ask(self, method: str, path: str, document: object = None, **options: Any) -> Answer:
        """Send a request and return its answer."""
        return self.begin(method, path, document, **options).answer()
