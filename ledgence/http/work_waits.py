"""The waits for work: requests without thread, connection or transaction until there is news for them.

Hints wake them, and one probe a second for all of them makes it certain. The same turn ends the waits whose time is
over, and records their empty answers in one statement: so a thousand idle workers cost what one does.
"""

import asyncio
import logging
import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ledgence import sql
from ledgence.http.lanes import Run
from ledgence.http.news import News, tell
from ledgence.served_queues import ServedQueues
from ledgence.service import DatabaseTaskService
from ledgence_worker.errors import Busy, LedgenceError
from ledgence_worker.protocol import Acquire

logger = logging.getLogger("ledgence.http")

#: How often waiting sessions are probed, with jitter so that processes do not ask in step.
TURN_SECONDS = (0.8, 1.0)
#: A shorter wait ends in time; the others with a turn, together.
SHORT_SECONDS = 3.0
#: A session that has not asked for so long is forgotten.
FORGET_SECONDS = 60.0


@dataclass(eq=False, slots=True, kw_only=True)
class Waiting:
    """One request that waits for work. ``heard``: how many hints had concerned its session before it looked."""

    command: Acquire
    heard: int
    deadline: float
    news: asyncio.Future[News]


@dataclass(eq=False, slots=True, kw_only=True)
class Known:
    """What this process knows of a session that waits here again and again."""

    served: ServedQueues
    asked_at: float
    #: How many hints concerned it.
    heard: int = 0
    #: By channel: the last sequence whose empty answer was recorded here, and ``heard`` before its last look.
    empty: dict[int, tuple[int, int]] = field(default_factory=dict)


class WorkWaits:
    """The waits of a process for work. Its methods belong to the event loop, but hear()."""

    def __init__(self, service: DatabaseTaskService, run: Run) -> None:
        self._service = service
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[UUID, Known] = {}
        self._work: set[Waiting] = set()
        self._turns: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._heard: set[str] = set()
        self._hearing = threading.Lock()

    @property
    def is_stopping(self) -> bool:
        """Whether the process stops, so that nobody may wait."""
        return self._stopping.is_set()

    def hear(self, words: set[str]) -> bool:
        """Take a hint, on the listener's thread; the waits that it concerns look again."""
        with self._hearing:
            is_first = not self._heard
            self._heard |= words
        # Hints that come faster than the loop turns are taken together: each costs a look at every session.
        if is_first:
            # A loop that has ended has no waits.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake_served)
        return False

    def stop(self) -> None:
        """End every wait, now and from here on: the process stops. One turn records all empty answers."""
        self._stopping.set()

    def may_skip(self, command: Acquire) -> bool:
        """Whether a command need not look first: a turn has just looked for it, and nothing was heard since."""
        known = self._sessions.get(command.session_id)
        return known is not None and known.empty.get(command.channel) == (command.sequence - 1, known.heard)

    def begin(self, command: Acquire) -> int:
        """Return how many hints concerned its session so far. Ask before it looks: wait() then misses none."""
        known = self._know(command.session_id)
        known.asked_at = time.monotonic()
        return known.heard

    def _know(self, session_id: UUID) -> Known:
        known = self._sessions.get(session_id)
        if known is None:
            served = ServedQueues(self._service.using)
            known = self._sessions[session_id] = Known(served=served, asked_at=time.monotonic())
        return known

    async def wait(self, command: Acquire, heard: int, deadline: float) -> News:
        """Wait, after begin() and a look that found nothing, until there may be work or the deadline has passed."""
        known = self._know(command.session_id)
        if known.served.is_outdated:
            await self._run(lambda: self._refresh(known.served, command.session_id))
        if self.is_stopping or known.heard != heard:
            return News.OVER if self.is_stopping else News.CHANGED
        waiting = Waiting(command=command, heard=heard, deadline=deadline, news=self._loop.create_future())
        self._work.add(waiting)
        if self._turns is None:
            self._turns = self._loop.create_task(self._take_turns())
        try:
            left = deadline - time.monotonic()
            # A turn that does not come in time was stuck somewhere.
            async with asyncio.timeout(left if left < SHORT_SECONDS else left + 2 * TURN_SECONDS[1]):
                news = await waiting.news
        except TimeoutError:
            news = News.OVER
        finally:
            self._work.discard(waiting)
        if news is News.RECORDED:
            known.empty[command.channel] = command.sequence, heard
        return news

    def _refresh(self, served: ServedQueues, session_id: UUID) -> None:
        with self._service.calling("http"):
            served.refresh(session_id)

    def _wake_served(self) -> None:
        with self._hearing:
            words, self._heard = self._heard, set()
        concerned = set()
        for session_id, known in self._sessions.items():
            if known.served.concern(words):
                known.heard += 1
                concerned.add(session_id)
        self._wake(concerned)

    def _wake(self, sessions: set[UUID]) -> None:
        tell((one.news for one in self._work if one.command.session_id in sessions), News.CHANGED)

    async def _take_turns(self) -> None:
        """Probe for all sessions that wait, and end the waits whose time is over, until nobody waits any more."""
        try:
            while self._work:
                pause = random.uniform(*TURN_SECONDS)  # noqa: S311 - jitter is no secret
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._stopping.wait()
                # Who began to wait meanwhile is of the next turn, which comes at once when the process stops.
                await self._try_turn()
                # Whoever was told goes now.
                await asyncio.sleep(0)
        finally:
            self._turns = None

    async def _try_turn(self) -> None:
        # Who is told already, and has not yet gone, is not asked for again.
        waiting = [one for one in self._work if not one.news.done()]
        try:
            await self._turn(waiting)
        except Busy:
            # Nobody's news; the next turn comes soon, and who waits no longer than this tries for itself.
            pass
        except LedgenceError:
            # Each looks for itself, and tells its own caller what is wrong.
            tell((one.news for one in waiting), News.CHANGED)
        except Exception:
            logger.exception("turn of the waits failed")
            tell((one.news for one in waiting), News.CHANGED)
        if self.is_stopping:
            tell((one.news for one in waiting), News.OVER)

    async def _turn(self, waiting: list[Waiting]) -> None:
        now = time.monotonic()
        over = [one for one in waiting if one.deadline <= now or self.is_stopping]
        sessions = set() if self.is_stopping else {one.command.session_id for one in waiting}
        changed, recorded = await self._run(lambda: self._look(sessions, [one.command for one in over]))
        self._wake(changed)
        for one in over:
            is_recorded = (one.command.session_id, one.command.channel) in recorded
            tell((one.news,), News.RECORDED if is_recorded else News.OVER)
        for session_id in [i for i, known in self._sessions.items() if known.asked_at < now - FORGET_SECONDS]:
            del self._sessions[session_id]

    def _look(self, sessions: set[UUID], over: Sequence[Acquire]) -> tuple[set[UUID], set[Any]]:
        """Return the sessions that have due work, and the channels of the others whose empty answer was recorded."""
        using, changed, recorded = self._service.using, set(), set()
        with self._service.calling("http"):
            if sessions:
                changed = {row[0] for row in sql.run("find_sessions_to_wake", using, {"sessions": list(sessions)})}
            # What has work to take is not answered with nothing.
            if empty := [command for command in over if command.session_id not in changed]:
                parameters = {
                    "sessions": [command.session_id for command in empty],
                    "channels": [command.channel for command in empty],
                    "sequences": [command.sequence for command in empty],
                }
                recorded = set(sql.run("record_empty_answers", using, parameters))
        return changed, recorded
