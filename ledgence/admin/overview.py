"""The overview: what needs attention, how work flows, what fails, and who did what, from a dozen bounded statements."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledgence import sql
from ledgence.admin.attention import Card, address_of, find_totals, make_cards
from ledgence.admin.charts import Chart
from ledgence.admin.minutes import LATELY, WINDOWS, Minutes, find_minutes, throughput, waits
from ledgence.admin.queue_lines import QueueLine, find_queue_lines
from ledgence.conf import get_settings
from ledgence.models import Attempt, OperatorAction
from ledgence.status import find_open_sessions
from ledgence.watch import unserved_work

#: How many of the newest failed tasks, and of the newest attempts, are looked at for what goes wrong.
FAILED_LOOKED_AT, ATTEMPTS_LOOKED_AT = 200, 2_000
FAILED_SECONDS = 86_400.0
LINES, ACTIONS = 20, 10
#: How long viewers who refresh share one look at the database.
SHARED_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What went wrong alike, by queue, program, outcome and exception."""

    queue: int
    program: str
    outcome: str
    #: The exception's class; empty without one, as after a crash.
    error_class: str
    count: int
    first_at: datetime
    last_at: datetime

    @property
    def error(self) -> str:
        return self.error_class.rpartition(".")[2] or str(Attempt.Outcome(self.outcome).label)

    @property
    def address(self) -> str:
        """The failed tasks of the program."""
        return address_of("task", state="failed", q=f"program:{self.program}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """A queue whose attempts are tried again far too often, and what they mostly die of."""

    line: QueueLine
    a_minute: float
    usual: float
    trouble: Sequence[Trouble]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Everything that the page shows."""

    window: str
    cards: Sequence[Card]
    charts: Sequence[Chart]
    queues: Sequence[QueueLine]
    errors: Sequence[Trouble]
    storms: Sequence[Storm]
    actions: Sequence[OperatorAction]


def find_overview(window: str = "2h") -> Overview:
    """Look at the ledger. Reads at most eight statements, each bounded; locks nothing."""
    using = get_settings().database
    minutes = find_minutes(WINDOWS[window], using=using)
    sessions = find_open_sessions(using=using)
    lines = find_queue_lines(sessions, minutes, using=using)
    failed, retried = _find_trouble(using)
    actions = OperatorAction.objects.using(using).order_by("-acted_at", "-pk")[:ACTIONS]
    return Overview(
        window=window,
        cards=make_cards(find_totals(), lines, sessions, unserved_work(using)),
        charts=(throughput(minutes), waits(minutes)),
        queues=lines,
        errors=failed[:LINES],
        storms=[_storm(line, minutes, retried) for line in lines if line.is_storm],
        actions=list(actions),
    )


def _find_trouble(using: str) -> tuple[list[Trouble], list[Trouble]]:
    """Return what the newest failed tasks died of, and what the attempts that were tried again lately."""
    terms: dict[str, Any] = {"failed_limit": FAILED_LOOKED_AT, "failed_seconds": FAILED_SECONDS}
    terms |= {"retried_limit": ATTEMPTS_LOOKED_AT, "retried_seconds": LATELY.total_seconds()}
    kinds: dict[str, list[Trouble]] = {"failed": [], "retried": []}
    for kind, *columns in sql.run("describe_trouble", using, terms):
        kinds[kind].append(Trouble(**dict(zip(Trouble.__dataclass_fields__, columns, strict=True))))
    return kinds["failed"], kinds["retried"]


def _storm(line: QueueLine, minutes: Minutes, retried: Sequence[Trouble]) -> Storm:
    length = LATELY.total_seconds() / 60
    return Storm(
        line=line,
        a_minute=line.lately.retried / length,
        usual=minutes.usual_retries(line.queue.pk) / length,
        trouble=[one for one in retried if one.queue == line.queue.pk][:3],
    )


_shared: dict[str, tuple[float, Overview]] = {}
_looking = threading.Lock()


def share_overview(window: str) -> Overview:
    """Return an overview that is at most SHARED_SECONDS old: however many look, the database is asked once."""
    with _looking:
        found = _shared.get(window)
        if found is None or time.monotonic() - found[0] > SHARED_SECONDS:
            found = _shared[window] = time.monotonic(), find_overview(window)
        return found[1]
