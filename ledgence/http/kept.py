"""Replies that answer everybody for a while: what needs no token must cost no more for a thousand than for one."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ledgence.http.endpoint import Endpoint, Reply


class Kept:
    """Keeps the replies of endpoints that have ``kept_seconds``. Belongs to the event loop."""

    def __init__(self) -> None:
        self._replies: dict[str, asyncio.Task[Reply]] = {}

    async def reply(self, endpoint: Endpoint, make: Callable[[], Coroutine[Any, Any, Reply]]) -> Reply:
        """Return the reply that is kept or being made, or make one. Raises what making it does, to all who wait."""
        making = self._replies.get(endpoint.name)
        if making is None:
            making = self._replies[endpoint.name] = asyncio.ensure_future(make())
            making.add_done_callback(lambda made: self._keep(endpoint, made))
        # Others wait for it too: it goes on when this caller is gone.
        return await asyncio.shield(making)

    def _keep(self, endpoint: Endpoint, made: asyncio.Task[Reply]) -> None:
        if made.cancelled() or made.exception() is not None:
            del self._replies[endpoint.name]
        else:
            made.get_loop().call_later(endpoint.kept_seconds, self._replies.pop, endpoint.name)
