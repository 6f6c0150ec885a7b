"""The drawing of a task's attempts: what stands where, and the words for it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ledgence.admin.timeline import BAR_MIN, CLOSE, ROOM, ROOMY, Row, Timeline, draw
from ledgence.models import Attempt
from tests.ledger.explanation.made import intent

START = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
NOW = START + timedelta(seconds=100)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def attempt(number: int, available: float, claimed: float | None, finished: float | None, **changes: Any) -> Attempt:
    """Return an attempt by seconds since the start."""
    return Attempt(
        **{
            "number": number,
            "outcome": None if finished is None else "crashed",
            "available_at": at(available),
            "claimed_at": None if claimed is None else at(claimed),
            "finished_at": None if finished is None else at(finished),
        }
        | changes
    )


def drawn(*attempts: Attempt, **options: Any) -> Timeline:
    timeline = draw(attempts, **{"since": START, "now": NOW, "waiting": None} | options)
    assert timeline is not None
    return timeline


def places(row: Row) -> list[tuple[float, float]]:
    return [(part.left, part.right) for part in (row.planned, row.due, row.bar) if part is not None]


def test_attempts_and_the_waits_between_share_the_width_by_time() -> None:
    first, second = attempt(1, 0, 10, 20), attempt(2, 30, 40, 50)
    timeline = drawn(first, second)
    assert [places(row) for row in timeline.rows] == [[(0, 0), (0, 20), (20, 40)], [(40, 60), (60, 80), (80, 100)]]
    assert [row.label for row in timeline.rows] == ["#1 crashed, 10.0 s", "#2 crashed, 10.0 s"]
    assert (timeline.length, timeline.begins, timeline.ends) == (
        "50.0 s",
        "2026-05-04 12:00:00 UTC",
        "2026-05-04 12:00:50 UTC",
    )
    assert timeline.description == "2 attempts: 2 × crashed."


def test_a_running_attempt_reaches_until_now() -> None:
    timeline = drawn(attempt(1, 0, 50, None))
    assert places(timeline.rows[0]) == [(0, 0), (0, 50), (50, 100)]
    assert (timeline.rows[0].kind, timeline.rows[0].label, timeline.ends) == ("active", "#1 runs, 50.0 s", "now")


def test_a_queued_generation_waits_until_now() -> None:
    later = drawn(attempt(1, 0, 0, 50), waiting=intent(generation=2, available_at=at(300)))
    assert places(later.rows[1]) == [(50, 100), (100, 100)]
    assert later.rows[1].label == "#2 waits, due in 3 min 20 s"
    due = drawn(attempt(1, 0, 0, 50), waiting=intent(generation=2, available_at=at(75)))
    assert places(due.rows[1]) == [(50, 75), (75, 100)]
    assert due.rows[1].label == "#2 waits, due for 25.0 s"
    first = drawn(waiting=intent(available_at=START))
    assert (places(first.rows[0]), first.description) == ([(0, 0), (0, 100)], "No attempt yet.")


def test_an_attempt_of_no_length_is_seen_wherever_it_is() -> None:
    timeline = drawn(attempt(1, 0, 0, 0), attempt(2, 0, 50, 50), attempt(3, 50, 100, 100))
    bars = [row.bar for row in timeline.rows]
    for bar in bars:
        assert bar is not None and bar.right - bar.left == pytest.approx(BAR_MIN)
        assert bar.left >= 0 and bar.right <= 100


def test_a_generation_cancelled_before_it_ran_has_a_bar_at_its_end() -> None:
    timeline = drawn(attempt(1, 80, None, 100, outcome="cancelled"))
    assert timeline.rows[0].label == "#1 cancelled before it ran"
    assert places(timeline.rows[0])[:2] == [(0, 80), (80, 100)]


def test_a_late_report_has_its_mark() -> None:
    timeline = drawn(attempt(1, 0, 0, 50, outcome="lost", late_at=at(75)), attempt(2, 50, 60, 100))
    assert (timeline.rows[0].late, timeline.rows[1].late) == ("75.00%", "")
    assert timeline.rows[0].label == "#1 lost, 50.0 s, late report"


def test_a_label_stands_where_it_has_room() -> None:
    rows = drawn(attempt(1, 0, 0, 10), attempt(2, 10, 45, 55), attempt(3, 55, 90, 100)).rows
    assert [(row.text_x, row.anchor) for row in rows] == [("0.00%", "start"), ("50.00%", "middle"), ("100.00%", "end")]


def test_many_rows_are_drawn_close_and_without_labels() -> None:
    few = drawn(*(attempt(n, n, n, n + 1) for n in range(1, ROOMY + 1)))
    many = drawn(*(attempt(n, n, n, n + 1) for n in range(1, ROOMY + 2)))
    assert (few.is_labelled, few.height) == (True, ROOM * ROOMY)
    assert (many.is_labelled, many.height) == (False, CLOSE * (ROOMY + 1))
    for timeline in (few, many):
        assert timeline.rows[-1].bar_y + timeline.rows[-1].bar_height <= timeline.height


def test_clocks_that_disagree_draw_nothing_outside() -> None:
    timeline = drawn(attempt(1, -50, -20, -10), attempt(2, 200, 150, 120), now=START - timedelta(seconds=1))
    for row in timeline.rows:
        for left, right in places(row):
            assert 0 <= left <= 100 and 0 <= right <= 100


def test_without_anything_there_is_no_drawing() -> None:
    assert draw([], since=START, now=NOW, waiting=None) is None
