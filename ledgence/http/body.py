"""How a body is taken from an ASGI server: counted while it arrives, in bytes and in seconds."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ledgence.http.replies import Refused
from ledgence.http.routing import Head, check_size
from ledgence_worker.errors import Busy

#: A body must be complete within this time, or the connection is given up.
BODY_SECONDS = 30.0
#: The token is checked before a larger body is taken.
SMALL_BYTES = 64 * 1024
#: How many bytes of bodies one process holds at a time.
HELD_BYTES_MAX = 256 * 1024 * 1024

type Message = MutableMapping[str, Any]
type Receive = Callable[[], Awaitable[Message]]


class Bodies:
    """Takes the bodies of one process. Belongs to the event loop."""

    def __init__(self) -> None:
        self._held = 0

    async def take(self, head: Head, receive: Receive, admit: Callable[[], Awaitable[object]]) -> bytes:
        """Take a whole body, after ``admit`` where it is or may become large; let_go() of it later. Raises Refused."""
        if head.endpoint.body is not None and (head.content_length is None or head.content_length > SMALL_BYTES):
            await admit()
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        # Of the caller, who reads no answer, or of the server's own patience.
                        raise Refused(408, "The body did not arrive whole.")
                    part = message.get("body", b"")
                    check_size(head, len(body) + len(part))
                    self._hold(len(part))
                    body += part
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            self.let_go(len(body))
            raise Refused(408, f"The body did not arrive within {BODY_SECONDS:g} s.") from None
        except BaseException:
            self.let_go(len(body))
            raise

    def _hold(self, size: int) -> None:
        if self._held + size > HELD_BYTES_MAX:
            raise Busy("The bodies of other requests fill the memory of this process; nothing was done. Send it again.")
        self._held += size

    def let_go(self, size: int) -> None:
        """Forget a body that was taken."""
        self._held -= size
