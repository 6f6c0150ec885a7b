"""The drawing of a task's attempts: what stands where, and the words for it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ledgence.admin.timeline import BAR_MIN, ROOM, ROWS_MAX, Row, Timeline, draw
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


def test_of_many_attempts_the_newest_are_drawn_and_the_others_counted() -> None:
    few = drawn(*(attempt(n, n, n, n + 1) for n in range(1, ROWS_MAX + 1)))
    many = drawn(*(attempt(n, n, n, n + 1) for n in range(1, ROWS_MAX + 9)))
    assert (few.left_out, many.left_out) == (0, 8)
    assert few.height == many.height == ROOM * ROWS_MAX
    assert [row.number for row in many.rows] == list(range(9, ROWS_MAX + 9))
    assert places(many.rows[0])[-1][0] == 0, "it begins with the first that is drawn"
    assert "20 × crashed" in many.description
    waiting = intent(generation=ROWS_MAX + 9, available_at=at(90))
    assert len(drawn(*(attempt(n, n, n, n + 1) for n in range(1, ROWS_MAX + 9)), waiting=waiting).rows) == ROWS_MAX


def test_an_attempt_whose_lease_is_over_is_no_healthy_bar() -> None:
    [row] = drawn(attempt(1, 0, 0, None), lease_over_at=at(40)).rows
    assert row.label == "#1 ran 40.0 s, lease over for 1 min 0 s"
    assert places(row)[-1] == (0, 40)
    assert row.over is not None and (row.over.left, row.over.right) == (40, 100)
    ended, _waits = drawn(attempt(1, 0, 0, 50), attempt(2, 50, 60, None), lease_over_at=at(70)).rows
    assert ended.over is None


def test_clocks_that_disagree_draw_nothing_outside() -> None:
    timeline = drawn(attempt(1, -50, -20, -10), attempt(2, 200, 150, 120), now=START - timedelta(seconds=1))
    for row in timeline.rows:
        for left, right in places(row):
            assert 0 <= left <= 100 and 0 <= right <= 100


def test_without_anything_there_is_no_drawing() -> None:
    assert draw([], since=START, now=NOW, waiting=None) is None
