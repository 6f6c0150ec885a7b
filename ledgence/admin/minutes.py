"""What was done minute by minute, summed over processes: the charts of the overview, and what is usual."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ledgence import sql
from ledgence.admin.charts import ROWS, Chart, Series, draw, on_log_scale, quantile, round_up
from ledgence.models.rollup import WAIT_BOUNDS
from ledgence.wording import span

#: How far back "lately" is.
LATELY = timedelta(minutes=10)
#: A minute's counts are written when it is over, by each process in its own time: the newest are not complete.
INCOMPLETE = timedelta(minutes=2)
#: So many retries lately are a storm when they are so many times the usual, or half of all that was claimed.
STORM_RETRIES, STORM_FACTOR = 20, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How far back the charts reach, and the length of one step."""

    label: Any
    length: timedelta
    step: timedelta


WINDOWS = {
    "2h": Window(label=gettext_lazy("2 hours"), length=timedelta(hours=2), step=timedelta(minutes=1)),
    "24h": Window(label=gettext_lazy("24 hours"), length=timedelta(hours=24), step=timedelta(minutes=15)),
}


@dataclass(slots=True, kw_only=True)
class Counts:
    """Sums of some roll-ups."""

    claimed: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    waits: Sequence[int] = (0,) * (len(WAIT_BOUNDS) + 1)

    def add(self, other: "Counts") -> None:
        self.claimed += other.claimed
        self.succeeded += other.succeeded
        self.failed += other.failed
        self.retried += other.retried
        self.waits = [mine + others for mine, others in zip(self.waits, other.waits, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Minutes:
    """The sums of a window: by step, and by queue lately and before."""

    window: Window
    steps: Sequence[tuple[datetime, Counts]]
    lately: defaultdict[int, Counts]
    before: defaultdict[int, Counts]

    def usual_retries(self, queue: int) -> float:
        """Return how many retries a queue has in a time as long as LATELY, by what was before."""
        return self.before[queue].retried * LATELY / (self.window.length - LATELY)

    def is_storm(self, queue: int) -> bool:
        """Tell whether a queue's attempts are tried again far more than usual, or half of the time."""
        lately = self.lately[queue]
        if lately.retried < STORM_RETRIES:
            return False
        return lately.retried > STORM_FACTOR * self.usual_retries(queue) or 2 * lately.retried >= lately.claimed


def find_minutes(window: Window, *, using: str) -> Minutes:
    """Sum what was counted in a window."""
    # The window ends before now, and so begins earlier.
    back = window.length + INCOMPLETE + 2 * window.step
    terms = {"seconds": back.total_seconds(), "span": window.step.total_seconds()}
    now = timezone.now()
    by_step: defaultdict[datetime, Counts] = defaultdict(Counts)
    lately: defaultdict[int, Counts] = defaultdict(Counts)
    before: defaultdict[int, Counts] = defaultdict(Counts)
    for at, queue, claimed, succeeded, failed, retried, _cancelled, waits in sql.run("sum_rollups", using, terms):
        counts = Counts(claimed=claimed, succeeded=succeeded, failed=failed, retried=retried, waits=waits)
        by_step[at].add(counts)
        (lately if at > now - LATELY - window.step else before)[queue].add(counts)
    return Minutes(window=window, steps=list(_fill(by_step, window, now)), lately=lately, before=before)


def _fill(found: dict[datetime, Counts], window: Window, now: datetime) -> Iterable[tuple[datetime, Counts]]:
    """Yield every step of a window whose counts are complete, those without any too."""
    count, seconds = window.length // window.step, window.step.total_seconds()
    last = (now - max(INCOMPLETE, window.step)).timestamp() // seconds * seconds
    for place in range(count):
        at = datetime.fromtimestamp(last - (count - 1 - place) * seconds, UTC)
        yield at, found[at]


def throughput(minutes: Minutes) -> Chart:
    """Draw how many attempts ended a minute, and how."""
    per_minute = minutes.window.step / timedelta(minutes=1)
    lines = [
        ("succeeded", _("succeeded"), [counts.succeeded / per_minute for _at, counts in minutes.steps]),
        ("retried", _("tried again"), [counts.retried / per_minute for _at, counts in minutes.steps]),
        ("failed", _("failed"), [counts.failed / per_minute for _at, counts in minutes.steps]),
    ]
    top = round_up(max(value for _kind, _label, values in lines for value in values))
    series = [
        Series(kind=kind, label=label, values=values, path=draw(values, top) if any(values) else "")
        for kind, label, values in lines
    ]
    title, unit = _("Ended attempts a minute"), _("%(count)s a minute")
    return _chart("throughput", title, series, minutes, unit % {"count": f"{top:,.0f}"}, "0", _number)


def waits(minutes: Minutes) -> Chart:
    """Draw how long work had been due when it was claimed."""
    lines = [
        (kind, label, [quantile(counts.waits, share) for _at, counts in minutes.steps])
        for kind, label, share in (
            ("typical", _("half waited less than"), 0.5),
            ("worst", _("95 of 100 waited less than"), 0.95),
        )
    ]
    series = [
        Series(kind=kind, label=label, values=values, path=draw([on_log_scale(value) for value in values], 1.0))
        for kind, label, values in lines
    ]
    top, bottom = (span(timedelta(seconds=bound)) for bound in (3 * WAIT_BOUNDS[-1], WAIT_BOUNDS[0]))
    return _chart("waits", _("Wait from due to claimed"), series, minutes, top, bottom, _length)


def _chart(
    name: str, title: Any, series: Sequence[Series], minutes: Minutes, top: str, bottom: str, words: Any
) -> Chart:
    moments = [at for at, _counts in minutes.steps]
    every = max(1, len(moments) // ROWS)
    rows = [
        (moments[first], [words(one.values[first : first + every]) for one in series])
        for first in range(0, len(moments), every)
    ]
    return Chart(
        name=name,
        title=title,
        series=series,
        top=top,
        bottom=bottom,
        since=moments[0],
        until=moments[-1],
        rows=rows,
    )


def _worst(say: Any, values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return say(max(known)) if known else "–"


_number = partial(_worst, lambda value: f"{value:,.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0"))
_length = partial(_worst, lambda value: span(timedelta(seconds=value)))
