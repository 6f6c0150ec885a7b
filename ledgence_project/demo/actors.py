"""Workers that are only pretended: they take and end work by the ledger's own operations, and run nothing."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from uuid import UUID, uuid4

from django.db.models import F
from django.db.models.functions import Now

from ledgence.models import Attempt, Channel, Task, WorkerSession
from ledgence.operations.acquire import acquire
from ledgence.operations.due import DueSearch
from ledgence.operations.quarantine import quarantine
from ledgence.operations.renew import renew
from ledgence.operations.sessions import extend_session, open_session
from ledgence.operations.settle import settle
from ledgence_worker.claims import RefusedMessage
from ledgence_worker.protocol import (
    Acquire,
    Assignment,
    CatalogueEntry,
    ErrorReport,
    OpenSession,
    Outcome,
    Report,
    Settlement,
)

#: The releases of the shop whose work is shown, by program.
ENTRY_POINTS = {
    "mail.send": "mails.programs:send",
    "images.resize": "images.programs:resize",
    "reports.monthly": "reports.programs:monthly",
    "billing.charge": "billing.programs:charge",
    "partners.notify": "partners.programs:notify",
    "orders.import": "orders.programs:import_file",
    "sync.inventory": "sync.programs:inventory",
}
TRACEBACK = """Traceback (most recent call last):
  File "ledgence_worker/child.py", line 211, in run
    return program.function(event, context)
  File "{module}", line {line}, in {function}
    {statement}
{name}: {message}
"""


class PretendedWorker:
    """One worker session, and what it holds."""

    def __init__(self, name: str, *, queues: Sequence[str], programs: Iterable[tuple[str, str]], using: str) -> None:
        self._using = using
        self._session = uuid4()
        self._sequence = 0
        self._search = DueSearch()
        self.held: list[Assignment] = []
        opening = OpenSession(
            session_id=self._session,
            name=name,
            host=f"{name}.internal",
            pid=4711,
            version="2026.11.2",
            concurrency=8,
            tenant="default",
            namespace="default",
            queues=tuple(queues),
            exclude_queues=(),
            catalogue=tuple(
                CatalogueEntry(name=program, version=version, entry_point=ENTRY_POINTS[program])
                for program, version in programs
            ),
        )
        open_session(opening, using=using)

    def take(self, count: int) -> list[Assignment]:
        """Take up to so many of the due tasks, and hold them."""
        self._sequence += 1
        command = Acquire(session_id=self._session, channel=0, sequence=self._sequence, capacity=count)
        reply = acquire(command, using=self._using, search=self._search)
        taken = list(reply.assignments) if reply is not None else []
        self.held += taken
        return taken

    def end(self, item: Assignment, outcome: Outcome = Outcome.SUCCEEDED, report: Report | None = None) -> None:
        """Settle what it took, as a program that ended so."""
        settlement = Settlement(
            task_id=item.task_id,
            number=item.number,
            token=item.token,
            outcome=outcome,
            result='{"done": true}' if outcome is Outcome.SUCCEEDED else None,
            report=report or Report(seconds=0.4),
        )
        settle(self._session, [settlement], using=self._using)
        self.held = [one for one in self.held if one is not item]

    def quarantine(self, queue: str, messages: Sequence[RefusedMessage]) -> None:
        """Record messages that can never be claimed."""
        quarantine(self._session, queue, messages, using=self._using)

    def live(self) -> None:
        """Extend the session, and renew what it holds."""
        extend_session(self._session, using=self._using)
        renew(self._session, [one.owner for one in self.held], using=self._using)

    def fall_silent(self, since: timedelta) -> None:
        """Let the worker be unheard of for so long, as one that was killed."""
        sessions = WorkerSession.objects.using(self._using).filter(pk=self._session)
        sessions.update(extended_at=F("extended_at") - since, opened_at=F("opened_at") - since)
        channels = Channel.objects.using(self._using).filter(session=self._session)
        channels.update(answered_at=F("answered_at") - since)


def raised(name: str, message: str, *, module: str, line: int, statement: str) -> Report:
    """Report that a program raised an exception."""
    short = name.rpartition(".")[2]
    traceback = TRACEBACK.format(
        module=module, line=line, function="run", statement=statement, name=short, message=message
    )
    error = ErrorReport(classes=(name, "Exception"), message=message, traceback=traceback)
    return Report(error=error, output="starting\n", seconds=1.7)


def shift(tasks: Iterable[UUID], ago: timedelta, *, using: str) -> None:
    """Let everything that happened to tasks have happened so long before it did."""
    ids = list(tasks)
    moved = {name: F(name) - ago for name in ("claimed_at", "authorized_at", "finished_at", "available_at")}
    Attempt.objects.using(using).filter(task_id__in=ids).update(**moved, lease_expires_at=F("lease_expires_at") - ago)
    moved = {name: F(name) - ago for name in ("submitted_at", "finished_at", "cancel_requested_at")}
    Task.objects.using(using).filter(pk__in=ids).update(**moved)


def stretch(task: UUID, lasts: timedelta, *, using: str) -> None:
    """Let each attempt of a task have taken so long, and the next one have begun a little later."""
    attempts = list(Attempt.objects.using(using).filter(task_id=task).order_by("number"))
    for attempt in attempts:
        begins = (lasts + lasts / 4) * (attempt.number - len(attempts) - 1)
        moved = {"available_at": begins - lasts / 8, "claimed_at": begins, "authorized_at": begins}
        moved |= {"finished_at": begins + lasts, "lease_expires_at": begins + 2 * lasts}
        Attempt.objects.using(using).filter(pk=attempt.pk).update(**{name: Now() + ago for name, ago in moved.items()})
    Task.objects.using(using).filter(pk=task).update(submitted_at=Now() - (lasts + lasts / 4) * (len(attempts) + 1))
