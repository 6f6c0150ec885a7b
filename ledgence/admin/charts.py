"""Charts as SVG that the server draws: no script, no style of their own, and every figure also as a table."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledgence.models.rollup import WAIT_BOUNDS

WIDTH, HEIGHT = 600, 120
#: How many rows the table of figures has at most.
ROWS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line of a chart; ``kind`` picks its look, which is not its colour alone."""

    kind: str
    label: Any
    #: One for each moment; None where there is nothing to draw.
    values: Sequence[float | None]
    #: The SVG path.
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines over the same moments, with what stands at the ends of its axes."""

    name: str
    title: Any
    series: Sequence[Series]
    top: str
    bottom: str
    since: datetime
    until: datetime
    #: Each a moment, and the words for its values.
    rows: Sequence[tuple[datetime, Sequence[str]]]

    width: int = WIDTH
    height: int = HEIGHT


def draw(values: Sequence[float | None], top: float) -> str:
    """Return the path of values from 0 to ``top`` over the whole width; a line is broken where there is none."""
    if len(values) < 2:
        return ""
    step, parts, is_drawing = WIDTH / (len(values) - 1), [], False
    for place, value in enumerate(values):
        if value is None:
            is_drawing = False
            continue
        # One pixel is left at both ends, or half of a line would be cut off.
        height = HEIGHT - 1 - (HEIGHT - 2) * min(1.0, value / top)
        # A lone point is drawn as a dash.
        is_alone = not is_drawing and (place + 1 == len(values) or values[place + 1] is None)
        parts.append(f"{'L' if is_drawing else 'M'}{place * step:.1f} {height:.1f}{'h2' if is_alone else ''}")
        is_drawing = True
    return "".join(parts)


def round_up(value: float) -> float:
    """Return the next value that an axis may end at: 1, 2, 3, 4, 5, 6 or 8 times a power of ten."""
    if value <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * factor for factor in (1, 2, 3, 4, 5, 6, 8, 10) if value <= power * factor)


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Return the bound of the wait below which a share of the counted ones lie; None where nothing was counted.

    The last count has no bound: its waits are told as thrice the longest one.
    """
    wanted, seen = share * sum(counts), 0
    if not wanted:
        return None
    for bound, count in zip((*WAIT_BOUNDS, 3 * WAIT_BOUNDS[-1]), counts, strict=True):
        seen += count
        if seen >= wanted:
            return float(bound)
    return None


def on_log_scale(value: float | None) -> float | None:
    """Return how far up a wait lies, from 0 for the shortest bound to 1 for what is longer than the longest."""
    if value is None:
        return None
    low, high = math.log10(WAIT_BOUNDS[0]), math.log10(3 * WAIT_BOUNDS[-1])
    return (math.log10(max(value, WAIT_BOUNDS[0])) - low) / (high - low)
