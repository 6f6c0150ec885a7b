"""The overview: what needs attention, how work flows, what fails, and who did what, from a dozen bounded statements."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ledgence.admin.attention import Card, find_totals, make_cards
from ledgence.admin.charts import Chart
from ledgence.admin.minutes import LATELY, WINDOWS, Minutes, find_minutes, throughput, waits
from ledgence.admin.queue_lines import QueueLine, find_queue_lines
from ledgence.admin.trouble import Trouble, find_trouble
from ledgence.conf import get_settings
from ledgence.models import OperatorAction
from ledgence.status import find_open_sessions
from ledgence.watch import unserved_work

LINES, ACTIONS = 20, 10
#: How long viewers who refresh share one look at the database.
SHARED_SECONDS = 5.0


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
    trouble = find_trouble(using)
    actions = OperatorAction.objects.using(using).order_by("-acted_at", "-pk")[:ACTIONS]
    return Overview(
        window=window,
        cards=make_cards(find_totals(), lines, sessions, unserved_work(using), trouble),
        charts=(throughput(minutes), waits(minutes)),
        queues=lines,
        errors=trouble[:LINES],
        storms=[_storm(line, minutes, trouble) for line in lines if line.is_storm],
        actions=list(actions),
    )


def _storm(line: QueueLine, minutes: Minutes, trouble: Sequence[Trouble]) -> Storm:
    length = LATELY.total_seconds() / 60
    own = [one for one in trouble if one.queue == line.queue.pk and one.retried]
    return Storm(
        line=line,
        a_minute=line.lately.retried / length,
        usual=minutes.usual_retries(line.queue.pk) / length,
        trouble=sorted(own, key=lambda one: -one.retried)[:3],
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
