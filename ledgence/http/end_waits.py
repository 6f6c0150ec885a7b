"""The waits for the ends of tasks: one look for all of them, and at once what this process ends itself."""

import asyncio
import logging
import time
from collections.abc import Iterable
from uuid import UUID

from ledgence import sql
from ledgence.http.lanes import Run
from ledgence.http.news import News, tell
from ledgence.service import DatabaseTaskService
from ledgence_worker.errors import Busy, LedgenceError

logger = logging.getLogger("ledgence.http")

#: How often the ends of tasks are looked for while somebody waits for one.
END_SECONDS = 0.25


class EndWaits:
    """The waits of a process for the ends of tasks. Belongs to the event loop."""

    def __init__(self, service: DatabaseTaskService, run: Run) -> None:
        self._service = service
        self._run = run
        self._ends: dict[UUID, set[asyncio.Future[News]]] = {}
        self._looks: asyncio.Task[None] | None = None
        #: Whether the process stops, so that nobody may wait.
        self.is_stopping = False

    def may_skip(self, task_id: UUID) -> bool:
        """Tell that nobody need look before a wait: each has looked as it came, and all are looked for soon."""
        return True

    def begin(self, task_id: UUID) -> None:
        """Note nothing: an end is found by the next look, whenever it was."""

    async def wait(self, task_id: UUID, begun: None, deadline: float) -> News:
        """Wait until a task may have ended or the deadline has passed."""
        if self.is_stopping:
            return News.OVER
        news: asyncio.Future[News] = asyncio.get_running_loop().create_future()
        self._ends.setdefault(task_id, set()).add(news)
        if self._looks is None:
            self._looks = asyncio.create_task(self._look_for_ends())
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

    def ended(self, task_ids: Iterable[UUID]) -> None:
        """Tell at once who waits for tasks that may have ended."""
        for task_id in task_ids:
            tell(self._ends.get(task_id, ()), News.CHANGED)

    def stop(self) -> None:
        """End every wait, now and from here on: the process stops."""
        self.is_stopping = True
        for waiting in self._ends.values():
            tell(waiting, News.OVER)
        if self._looks is not None:
            self._looks.cancel()

    async def _look_for_ends(self) -> None:
        try:
            while self._ends:
                await asyncio.sleep(END_SECONDS)
                tasks = list(self._ends)
                try:
                    self.ended(await self._run(lambda: self._find_ended(tasks)))  # noqa: B023 - awaited in its turn
                except Busy:
                    pass
                except Exception as error:
                    if not isinstance(error, LedgenceError):
                        logger.exception("look for the ends of tasks failed")
                    self.ended(tasks)
        finally:
            self._looks = None

    def _find_ended(self, tasks: list[UUID]) -> list[UUID]:
        with self._service.calling("http"):
            return [row[0] for row in sql.run("find_ended_tasks", self._service.using, {"tasks": tasks})]
