"""The listener of one process: waits for hints on its own connection, and checks that it still hears them."""

import logging
import random
import selectors
import socket
import threading
import time
from collections.abc import Callable
from uuid import uuid4

import psycopg
from django.db import Error

from ledgence import hints, sql
from ledgence.worker_connections import Connections

logger = logging.getLogger("ledgence.listener")

#: How long the end of its connection to a server that answers nothing may take.
CLOSE_SECONDS = 5.0
CHECK_SECONDS = 30.0
RECONNECT_SECONDS = (0.2, 30.0)


class Listener:
    """A thread that counts hints. Without it, or while it is deaf, polls find the same work within a second.

    Every CHECK_SECONDS it sends a hint to itself; one that does not arrive means a dead connection, or a transaction
    pooler that accepts LISTEN and delivers nothing. It then connects anew, ever more rarely.
    """

    def __init__(
        self,
        connections: Connections,
        *,
        concerns: Callable[[set[str]], bool],
        on_cancel: Callable[[], None],
    ) -> None:
        self._connections = connections
        self._concerns = concerns
        self._on_cancel = on_cancel
        self._own_channel = f"ledgence_{uuid4().hex}"
        self._heard = threading.Condition()
        self._count = 0
        self._closed = threading.Event()
        #: Becomes readable when close() closes the other side: ends the wait for the server's next message.
        self._end, self._end_sender = socket.socketpair()
        #: Whether the last check arrived.
        self.is_hearing = False
        self._thread = threading.Thread(target=self._run, name="ledgence-listener", daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        """How many hints of concern were heard. Read it before looking for work; wait_past() then misses none."""
        return self._count

    def wait_past(self, count: int, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for a hint after ``count``; return whether there was one."""
        with self._heard:
            return self._heard.wait_for(lambda: self._count != count, max(0.0, timeout))

    def stir(self) -> None:
        """Wake everyone who waits, as a hint would."""
        with self._heard:
            self._count += 1
            self._heard.notify_all()

    def close(self) -> None:
        self._closed.set()
        self._end_sender.close()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        pause = RECONNECT_SECONDS[0]
        while not self._closed.is_set():
            try:
                self._listen()
            except (Error, psycopg.Error) as error:
                # What the driver's own connection raises does not pass through Django.
                logger.info("listener not connected error=%s", error)
            except Exception:
                # Nobody watches this thread: it must not die of what was not foreseen.
                logger.exception("listener failed, trying again")
            if self.is_hearing:
                pause = RECONNECT_SECONDS[0]
            self.is_hearing = False
            self._closed.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter is no secret
            pause = min(RECONNECT_SECONDS[1], pause * 2)
        self._end.close()

    def _listen(self) -> None:
        """Listen until the end, or until a check does not arrive."""
        wrapper = self._connections.use("listener")
        wrapper.close()
        wrapper.ensure_connection()
        raw = wrapper.connection
        for channel in (hints.CHANNEL, self._own_channel):
            raw.execute(f"LISTEN {channel}")
        check_at = time.monotonic()
        sent = False
        with selectors.DefaultSelector() as selector:
            selector.register(raw, selectors.EVENT_READ)
            selector.register(self._end, selectors.EVENT_READ)
            while not self._closed.is_set():
                if time.monotonic() >= check_at:
                    if sent and not self.is_hearing:
                        logger.warning("listener hears nothing: hints are off until it does, polls go on")
                        return
                    self.is_hearing, sent = False, True
                    sql.run("notify", wrapper.alias, {"channel": self._own_channel, "payload": ""})
                    check_at = time.monotonic() + CHECK_SECONDS
                # Before the wait: some may have come with the answer to the check.
                for notice in raw.notifies(timeout=0):
                    self._hear(notice.channel, notice.payload)
                selector.select(max(0.0, check_at - time.monotonic()))

    def _hear(self, channel: str, payload: str) -> None:
        if channel == self._own_channel:
            self.is_hearing = True
            return
        words = set(payload.split())
        # EVERYTHING stands for more words than fit, a cancellation perhaps among them.
        if not words.isdisjoint({hints.CANCEL, hints.EVERYTHING}):
            self._on_cancel()
        if self._concerns(words):
            self.stir()
