"""A ledger that answers the statements of waits, for tests without a database."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID

from ledgence.service import DatabaseTaskService

PATIENCE_SECONDS = 20.0


class Ledger:
    """Answers the statements of the waits; a session serves the queue that is told for it."""

    def __init__(self) -> None:
        self.queues: dict[UUID, int] = {}
        self.due: set[UUID] = set()
        self.refused: set[UUID] = set()
        self.ended: set[UUID] = set()
        self.fails: Exception | None = None
        self.sent: list[str] = []
        self.recorded: list[list[UUID]] = []

    def run(self, name: str, using: str, parameters: Any) -> list[Any]:
        self.sent.append(name)
        if self.fails is not None:
            raise self.fails
        return cast("list[Any]", getattr(self, name)(**parameters))

    def find_served_queues(self, session: UUID) -> list[Any]:
        return [(max(self.queues.values()), [self.queues[session]])]

    def find_sessions_to_wake(self, sessions: list[UUID]) -> list[Any]:
        return [(session,) for session in sessions if session in self.due]

    def record_empty_answers(self, sessions: list[UUID], channels: list[int], sequences: list[int]) -> list[Any]:
        kept = [(s, c) for s, c in zip(sessions, channels, strict=True) if s not in self.refused]
        self.recorded.append([session for session, _ in kept])
        return kept

    def find_ended_tasks(self, tasks: list[UUID]) -> list[Any]:
        return [(task,) for task in tasks if task in self.ended]


class Service:
    using = "default"

    @contextmanager
    def calling(self, role: str) -> Iterator[None]:
        yield


async def run_here(function: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(function)


SERVICE = cast("DatabaseTaskService", Service())
