"""The waits of one server process: requests without thread, connection or transaction until there is news for them.

Hints wake them, and one probe a second for all of them makes it certain. The same turn ends the waits whose time is
over, and records their empty answers in one statement: so a thousand idle workers cost what one does.
"""

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any
from uuid import UUID

from ledgence import sql
from ledgence.served_queues import ServedQueues
from ledgence.service import DatabaseTaskService
from ledgence_worker.errors import LedgenceError
from ledgence_worker.protocol import Acquire

#: How often waiting sessions are probed, with jitter so that processes do not ask in step.
TURN_SECONDS = (0.8, 1.0)
SHORT_SECONDS = 3.0
#: How often the ends of tasks are looked for while somebody waits for one.
END_SECONDS = 0.25
#: A session that has not asked for so long is forgotten.
FORGET_SECONDS = 60.0


class News(Enum):
    """Why a wait is over."""

    # There may be something: try again.
    CHANGED = auto()
    # The time is over: the last try follows.
    OVER = auto()
    # The time is over, and the empty answer is recorded already.
    RECORDED = auto()


@dataclass(eq=False, slots=True, kw_only=True)
class Waiting:
    """One request that waits for work."""

    command: Acquire
    deadline: float
    news: asyncio.Future[News]


@dataclass(eq=False, slots=True, kw_only=True)
class Known:
    """What this process knows of a session that waits here again and again."""

    served: ServedQueues
    asked_at: float
    #: A hint concerned it since it last looked.
    is_dirty: bool = True
    #: By channel: the last sequence whose empty answer was recorded here.
    empty: dict[int, int] = field(default_factory=dict)


#: Runs a function on one of the process's threads.
type Run = Callable[[Callable[[], Any]], Awaitable[Any]]


class Waits:
    """Every wait of a process. Its methods belong to the event loop, but hear()."""

    def __init__(self, service: DatabaseTaskService, run: Run) -> None:
        self._service = service
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[UUID, Known] = {}
        self._work: set[Waiting] = set()
        self._ends: dict[UUID, set[asyncio.Future[News]]] = {}
        self._turns: asyncio.Task[None] | None = None
        self._looks: asyncio.Task[None] | None = None
        self.is_stopping = False
        self._heard: set[str] = set()
        self._hearing = threading.Lock()

    @property
    def count(self) -> int:
        """How many requests wait."""
        return len(self._work) + sum(map(len, self._ends.values()))

    def hear(self, words: set[str]) -> bool:
        """Take a hint, on the listener's thread; the waits that it concerns look again."""
        with self._hearing:
            is_first = not self._heard
            self._heard |= words
        # Hints that come faster than the loop turns are taken together: each costs a look at every session.
        if is_first:
            self._loop.call_soon_threadsafe(self._wake_served)
        return False

    def stop(self) -> None:
        """End every wait, now and from here on: the process stops."""
        self.is_stopping = True
        self._tell(self._work, News.OVER)
        for waiting in self._ends.values():
            for news in waiting:
                _tell(news, News.OVER)

    def may_skip(self, command: Acquire) -> bool:
        """Whether a command need not look first: this process has just looked, and was told of nothing since."""
        known = self._sessions.get(command.session_id)
        if known is None or known.is_dirty or command.settlements:
            return False
        return known.empty.get(command.channel) == command.sequence - 1

    def begin(self, session_id: UUID) -> None:
        """Note, before a session looks for work, that every hint from now on concerns its next look."""
        known = self._sessions.get(session_id)
        if known is None:
            known = self._sessions[session_id] = Known(served=ServedQueues(self._service.using), asked_at=0.0)
        known.asked_at, known.is_dirty = time.monotonic(), False

    async def for_work(self, command: Acquire, deadline: float) -> News:
        """Wait, after begin() and a look that found nothing, until there may be work or the deadline has passed."""
        known = self._sessions[command.session_id]
        if known.served.is_outdated:
            await self._run(lambda: self._refresh(known.served, command.session_id))
        if self.is_stopping or known.is_dirty:
            return News.OVER if self.is_stopping else News.CHANGED
        waiting = Waiting(command=command, deadline=deadline, news=self._loop.create_future())
        self._work.add(waiting)
        if self._turns is None:
            self._turns = self._loop.create_task(self._take_turns())
        try:
            left = deadline - time.monotonic()
            # Short waits end in time; the long ones end with a turn, together.
            async with asyncio.timeout(left if left < SHORT_SECONDS else left + TURN_SECONDS[1]):
                news = await waiting.news
        except TimeoutError:
            news = News.OVER
        finally:
            self._work.discard(waiting)
        if news is News.RECORDED:
            known.empty[command.channel] = command.sequence
        return news

    async def for_end(self, task_id: UUID, deadline: float) -> News:
        """Wait until a task may have ended or the deadline has passed."""
        if self.is_stopping:
            return News.OVER
        news: asyncio.Future[News] = self._loop.create_future()
        self._ends.setdefault(task_id, set()).add(news)
        if self._looks is None:
            self._looks = self._loop.create_task(self._look_for_ends())
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await news
        except TimeoutError:
            return News.OVER
        finally:
            waiting = self._ends[task_id]
            waiting.discard(news)
            if not waiting:
                del self._ends[task_id]

    def ended(self, task_ids: Sequence[UUID]) -> None:
        """Tell at once who waits for tasks that were settled by this process."""
        for task_id in task_ids:
            for news in self._ends.get(task_id, ()):
                _tell(news, News.CHANGED)

    def _refresh(self, served: ServedQueues, session_id: UUID) -> None:
        with self._service.calling("http"):
            served.refresh(session_id)

    def _wake_served(self) -> None:
        with self._hearing:
            words, self._heard = self._heard, set()
        concerned = set()
        for session_id, known in self._sessions.items():
            if known.served.concern(words):
                known.is_dirty = True
                concerned.add(session_id)
        self._tell({waiting for waiting in self._work if waiting.command.session_id in concerned}, News.CHANGED)

    async def _take_turns(self) -> None:
        """Probe for all sessions that wait, and end the waits whose time is over, until nobody waits any more."""
        try:
            while self._work:
                await asyncio.sleep(random.uniform(*TURN_SECONDS))  # noqa: S311 - jitter is no secret
                try:
                    await self._turn()
                except LedgenceError:
                    # Each looks for itself, and tells its own caller what is wrong.
                    self._tell(self._work, News.CHANGED)
        finally:
            self._turns = None

    async def _turn(self) -> None:
        now = time.monotonic()
        over = [waiting for waiting in self._work if waiting.deadline <= now]
        rest = {waiting.command.session_id for waiting in self._work.difference(over)}
        recorded, changed = await self._run(lambda: self._look([waiting.command for waiting in over], rest))
        for waiting in over:
            is_recorded = (waiting.command.session_id, waiting.command.channel) in recorded
            _tell(waiting.news, News.RECORDED if is_recorded else News.OVER)
        self._tell({waiting for waiting in self._work if waiting.command.session_id in changed}, News.CHANGED)
        for session_id in [i for i, known in self._sessions.items() if known.asked_at < now - FORGET_SECONDS]:
            del self._sessions[session_id]

    def _look(self, over: list[Acquire], sessions: set[UUID]) -> tuple[set[Any], set[UUID]]:
        using, recorded, changed = self._service.using, set(), set()
        with self._service.calling("http"):
            if over:
                parameters = {
                    "sessions": [command.session_id for command in over],
                    "channels": [command.channel for command in over],
                    "sequences": [command.sequence for command in over],
                }
                recorded = set(sql.run("record_empty_answers", using, parameters))
            if sessions:
                changed = {row[0] for row in sql.run("find_sessions_to_wake", using, {"sessions": list(sessions)})}
        return recorded, changed

    async def _look_for_ends(self) -> None:
        try:
            while self._ends:
                await asyncio.sleep(END_SECONDS)
                tasks = list(self._ends)
                try:
                    self.ended(await self._run(lambda: self._find_ended(tasks)))  # noqa: B023 - awaited in its turn
                except LedgenceError:
                    self.ended(tasks)
        finally:
            self._looks = None

    def _find_ended(self, tasks: list[UUID]) -> list[UUID]:
        with self._service.calling("http"):
            return [row[0] for row in sql.run("find_ended_tasks", self._service.using, {"tasks": tasks})]

    def _tell(self, waiting: set[Waiting], news: News) -> None:
        for one in list(waiting):
            _tell(one.news, news)


def _tell(future: asyncio.Future[News], news: News) -> None:
    if not future.done():
        future.set_result(news)
