"""A task's timeline as the server draws it: a bar for each attempt, and lines for the waits between."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ledgence.explanation.facts import IntentFacts
from ledgence.models import Attempt
from ledgence.wording import clock_time, span

#: So many rows are drawn, the newest: what comes below stays in sight.
ROWS_MAX = 12
ROOM = 32
#: The least share of the width that an attempt has, in percent: one of milliseconds between waits of days is seen.
BAR_MIN = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of a row from left to right, in percent of the width."""

    left: float
    right: float

    @property
    def x1(self) -> str:
        return f"{self.left:.2f}%"

    @property
    def x2(self) -> str:
        return f"{self.right:.2f}%"

    @property
    def width(self) -> str:
        return f"{self.right - self.left:.2f}%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One attempt, or the generation that is queued, which has no bar yet."""

    number: int
    #: The outcome, "active" or "queued": it picks the colour, the words alone tell the meaning.
    kind: str
    label: str
    #: Until it was due.
    planned: Stretch
    #: From then on until somebody took it.
    due: Stretch
    bar: Stretch | None
    #: From the end of its lease on, where that is over and nobody has ended the attempt.
    over: Stretch | None = None
    #: Where a report came after authority was lost.
    late: str
    text_x: str
    anchor: str
    top: int

    @property
    def text_y(self) -> int:
        return self.top + 12

    @property
    def bar_y(self) -> int:
        return self.top + 17

    @property
    def middle(self) -> int:
        return self.top + 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The drawing, and the words that stand for it."""

    rows: Sequence[Row]
    height: int
    #: How many older attempts are not drawn.
    left_out: int
    begins: str
    ends: str
    length: str
    description: str


class Scale:
    """Places moments between the first and the last one."""

    def __init__(self, begins: datetime, ends: datetime) -> None:
        self.begins, self.ends = begins, max(ends, begins + timedelta(milliseconds=1))

    def place(self, at: datetime) -> float:
        share = (at - self.begins) / (self.ends - self.begins)
        return min(1.0, max(0.0, share)) * 100

    def stretch(self, begins: datetime, ends: datetime, *, least: float = 0.0) -> Stretch:
        left = min(self.place(begins), 100 - least)
        return Stretch(left=left, right=max(self.place(ends), left + least))


def draw(
    attempts: Sequence[Attempt],
    *,
    since: datetime,
    now: datetime,
    waiting: IntentFacts | None,
    lease_over_at: datetime | None = None,
) -> Timeline | None:
    """Draw the newest of attempts, which come first to last, from ``since`` on; None where there is nothing to draw.

    ``lease_over_at`` is when the lease of the attempt that runs was over.
    """
    if not attempts and waiting is None:
        return None
    drawn = attempts[-(ROWS_MAX - (waiting is not None)) :]
    left_out = (drawn[0].number - 1) if drawn else 0
    if len(drawn) < len(attempts):
        since = drawn[0].available_at
    is_over = waiting is None and attempts[-1].finished_at is not None
    ends = (attempts[-1].finished_at if is_over else None) or now
    scale = Scale(since, ends)
    rows: list[Row] = []
    before = since
    for attempt in drawn:
        over_at = lease_over_at if attempt.finished_at is None else None
        rows.append(_attempt(attempt, before, now, scale, over_at=over_at, top=len(rows) * ROOM))
        before = attempt.finished_at or now
    if waiting is not None:
        rows.append(_waiting(waiting, before, now, scale, top=len(rows) * ROOM))
    return Timeline(
        rows=rows,
        height=len(rows) * ROOM,
        left_out=left_out,
        begins=clock_time(scale.begins),
        ends=_("now") if ends == now else clock_time(ends),
        length=span(ends - scale.begins),
        description=_describe(attempts),
    )


def _attempt(
    attempt: Attempt, before: datetime, now: datetime, scale: Scale, *, over_at: datetime | None, top: int
) -> Row:
    ended = attempt.finished_at or now
    began = attempt.claimed_at or ended
    bar = scale.stretch(began, over_at or ended, least=BAR_MIN)
    outcome = str(Attempt.Outcome(attempt.outcome).label) if attempt.outcome else _("runs")
    words = {"number": attempt.number, "outcome": outcome, "time": span(ended - began)}
    if attempt.claimed_at is None:
        label = _("#%(number)d %(outcome)s before it ran") % words
    elif over_at is not None:
        words = {"number": attempt.number, "time": span(over_at - began), "over": span(now - over_at)}
        label = _("#%(number)d ran %(time)s, lease over for %(over)s") % words
    elif attempt.late_at is None:
        label = _("#%(number)d %(outcome)s, %(time)s") % words
    else:
        label = _("#%(number)d %(outcome)s, %(time)s, late report") % words
    text_x, anchor = _anchor(bar)
    return Row(
        number=attempt.number,
        kind=attempt.outcome or "active",
        label=label,
        planned=scale.stretch(before, min(attempt.available_at, began)),
        due=scale.stretch(max(before, min(attempt.available_at, began)), began),
        bar=bar,
        over=scale.stretch(over_at, now, least=BAR_MIN) if over_at else None,
        late="" if attempt.late_at is None else f"{scale.place(attempt.late_at):.2f}%",
        text_x=text_x,
        anchor=anchor,
        top=top,
    )


def _waiting(waiting: IntentFacts, before: datetime, now: datetime, scale: Scale, *, top: int) -> Row:
    words = {"number": waiting.generation, "time": span(waiting.available_at - now)}
    if waiting.available_at > now:
        label = _("#%(number)d waits, due in %(time)s") % words
    else:
        label = _("#%(number)d waits, due for %(time)s") % words
    return Row(
        number=waiting.generation,
        kind="queued",
        label=label,
        planned=scale.stretch(before, waiting.available_at),
        due=scale.stretch(max(before, waiting.available_at), now),
        bar=None,
        late="",
        text_x="100%",
        anchor="end",
        top=top,
    )


def _anchor(bar: Stretch) -> tuple[str, str]:
    """Place a label so that it has room: where its bar begins, ends, or around its middle."""
    if bar.left < 35:
        return bar.x1, "start"
    if bar.right > 65:
        return bar.x2, "end"
    return f"{(bar.left + bar.right) / 2:.2f}%", "middle"


def _describe(attempts: Sequence[Attempt]) -> str:
    count = len(attempts)
    text = ngettext("%(count)d attempt: %(outcomes)s.", "%(count)d attempts: %(outcomes)s.", count)
    outcomes = Counter(
        str(Attempt.Outcome(attempt.outcome).label) if attempt.outcome else _("runs") for attempt in attempts
    )
    if not outcomes:
        return _("No attempt yet.")
    return text % {"count": count, "outcomes": ", ".join(f"{n} × {name}" for name, n in outcomes.most_common())}
