"""A task as an application holds it: by its id, everything else read anew."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from asgiref.sync import sync_to_async
from django.db import connections

from ledgence.models import Attempt, State, Task
from ledgence.operations import operate
from ledgence.operations.actions import Operator
from ledgence.operations.cancel import CancelStatus, cancel
from ledgence_worker.errors import InvalidInput, NotFinished, NotFound, TaskFailed

# How often wait() looks: soon at first, then at least once a second.
POLL_SECONDS = (0.01, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHandle:
    """A task by its id. Everything it tells is read anew; ``is_new`` is False when submit answered a repeated key."""

    id: UUID
    using: str
    is_new: bool = field(default=False, compare=False)

    @property
    def state(self) -> State:
        """The state now. Raises NotFound."""
        return State(self._row(Task.objects.with_state()).state)

    @property
    def attempts(self) -> list[Attempt]:
        """Every attempt so far, first to last."""
        return list(Attempt.objects.using(self.using).filter(task_id=self.id).order_by("number"))

    def result(self) -> Any:
        """Return what the program returned. Raises NotFinished, TaskFailed, NotFound."""
        outcome, result = self._row(Task.objects.values_list("outcome", "result"))
        if outcome is None:
            raise NotFinished(f"Task {self.id} is not finished; wait() for it.")
        if outcome != State.SUCCEEDED:
            error = last_error(self.id, using=self.using)
            raise TaskFailed(self.id, outcome, "." if error is None else f": {error}")
        return result

    def wait(self, timeout: float) -> Any:
        """Wait up to ``timeout`` seconds for the end and return the result as result() does.

        Raises NotFinished after the time-out, and InvalidInput inside a transaction: there the task's submission would
        not be committed, or its end would never become visible.
        """
        self._refuse_in_transaction()
        for pause in _pauses(timeout):
            try:
                return self.result()
            except NotFinished:
                time.sleep(pause)
        return self.result()

    async def await_(self, timeout: float) -> Any:
        """Wait as wait() does, without holding a thread."""
        await sync_to_async(self._refuse_in_transaction)()
        for pause in _pauses(timeout):
            try:
                return await self.aresult()
            except NotFinished:
                await asyncio.sleep(pause)
        return await self.aresult()

    def _refuse_in_transaction(self) -> None:
        connection = connections[self.using]
        # With autocommit off there is a transaction too, though no atomic block says so.
        if connection.in_atomic_block or not connection.get_autocommit():
            raise InvalidInput(f"wait for task {self.id}: leave the transaction first; inside, its end cannot be seen.")

    def cancel(self) -> CancelStatus:
        """Cancel the task: at once while it is queued, by request while it is active."""
        return cancel([self.id], using=self.using)[self.id]

    def requeue(self, *, reason: str, name: str = "application") -> str:
        """Make a failed or cancelled task ready again, as it is now; recorded as done by ``name`` for ``reason``."""
        revision = self._row(Task.objects.values_list("revision", flat=True))
        operator = Operator(action_id=uuid4(), name=name, reason=reason)
        return operate.requeue({self.id: revision}, operator, using=self.using)[str(self.id)]

    async def astate(self) -> State:
        """Return the state now, as ``state`` does."""
        return await sync_to_async(lambda: self.state)()

    async def aattempts(self) -> list[Attempt]:
        """Return every attempt so far, as ``attempts`` does."""
        return await sync_to_async(lambda: self.attempts)()

    async def aresult(self) -> Any:
        """Return the result, as result() does."""
        return await sync_to_async(self.result)()

    async def acancel(self) -> CancelStatus:
        """Cancel the task, as cancel() does."""
        return await sync_to_async(self.cancel)()

    async def arequeue(self, *, reason: str, name: str = "application") -> str:
        """Make the task ready again, as requeue() does."""
        return await sync_to_async(self.requeue)(reason=reason, name=name)

    def _row(self, query: Any) -> Any:
        row = query.using(self.using).filter(pk=self.id).first()
        if row is None:
            raise NotFound(f"Task {self.id} does not exist in database {self.using!r}.")
        return row


def last_error(task_id: UUID, *, using: str) -> str | None:
    """Say in one line how a task's last attempt ended: with class and message of what it raised, if known."""
    attempts = Attempt.objects.using(using).filter(task_id=task_id).order_by("-number")
    if (last := attempts.values_list("number", "outcome", "report").first()) is None:
        return None
    number, outcome, report = last
    error = (report or {}).get("error") or {}
    told = [name.rpartition(".")[2] for name in error.get("classes", ())[:1]]
    told += [message for message in (error.get("message"),) if message]
    return ": ".join([f"attempt {number} {outcome}", *told])


def _pauses(timeout: float) -> Iterator[float]:
    """Yield pauses that grow to a second, until they add up to ``timeout``."""
    deadline = time.monotonic() + timeout
    pause = POLL_SECONDS[0]
    while (left := deadline - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(pause * 1.5, POLL_SECONDS[1])
