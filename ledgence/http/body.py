"""How a body is taken from an ASGI server: counted while it arrives, in bytes and in seconds."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from ledgence.http.replies import Refused
from ledgence.http.routing import Head, check_size
from ledgence_worker.errors import Busy

#: A body must be complete within this time, or the connection is given up.
BODY_SECONDS = 30.0
#: The token is checked before a larger body is taken.
SMALL_BYTES = 64 * 1024
#: Larger ones are read one at a time.
LARGE_BYTES = 1024 * 1024
#: How many bytes of bodies one process holds at a time.
HELD_BYTES_MAX = 256 * 1024 * 1024
#: A refused body is read to its end and forgotten if that is near. Where the connection is closed under a caller that
#: still sends, the refusal is lost on its way: the caller, or a proxy before it, sees a broken connection.
DROPPED_BYTES_MAX = 64 * 1024 * 1024
DROPPED_SECONDS = 5.0

type Message = MutableMapping[str, Any]
type Receive = Callable[[], Awaitable[Message]]


class Body:
    """A body that was taken. It counts, and is held, until it is let go."""

    def __init__(self, content: bytes, forget: Callable[[int], None]) -> None:
        self.content = content
        self._forget = forget

    @property
    def is_large(self) -> bool:
        """Whether no other of this size may be read beside it."""
        return len(self.content) > LARGE_BYTES

    def let_go(self) -> None:
        """Hold it no more; once is enough."""
        self._forget(len(self.content))
        self.content = b""


class Bodies:
    """Takes the bodies of one process. Belongs to the event loop."""

    def __init__(self) -> None:
        self._held = 0
        #: Held while a large body is read: what it is made of may be thirty times as large for a moment.
        self.reading = asyncio.Semaphore(1)

    async def take(self, head: Head, receive: Receive, admit: Callable[[], Awaitable[object]]) -> Body:
        """Take a whole body, after ``admit`` where it is or may become large; let it go later. Raises Refused."""
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
                        return Body(bytes(body), self._let_go)
        except TimeoutError:
            self._let_go(len(body))
            raise Refused(408, f"The body did not arrive within {BODY_SECONDS:g} s.") from None
        except BaseException:
            self._let_go(len(body))
            raise

    def _hold(self, size: int) -> None:
        if self._held + size > HELD_BYTES_MAX:
            raise Busy("The bodies of other requests fill the memory of this process; nothing was done. Send it again.")
        self._held += size

    def _let_go(self, size: int) -> None:
        self._held -= size


def has_near_end(headers: Mapping[str, str]) -> bool:
    """Tell whether a refused body is worth to be read to its end."""
    length = headers.get("content-length", "")
    # Whoever expects to be told to go on sends nothing once it is answered.
    return "expect" not in headers and bool(re.fullmatch("[0-9]{1,15}", length)) and int(length) <= DROPPED_BYTES_MAX


async def drop(headers: Mapping[str, str], receive: Receive) -> bool:
    """Read what is left of a refused body; False where it was not, and the connection must be closed instead."""
    if not has_near_end(headers):
        return False
    try:
        async with asyncio.timeout(DROPPED_SECONDS):
            while (message := await receive())["type"] != "http.disconnect":
                if not message.get("more_body", False):
                    return True
    except TimeoutError:
        pass
    return False
