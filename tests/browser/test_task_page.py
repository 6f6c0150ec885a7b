"""A task's page where it has most to tell: what holds the task up, a timeline of many kinds, and what unfolds."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from playwright.sync_api import expect

from ledgence.operations.queues import pause
from ledgence_worker.protocol import ErrorReport, Outcome
from tests.admin.conftest import Ledger
from tests.admin.test_pages import page_of
from tests.admin.test_task_page import external_task
from tests.browser.looking import NARROW, Tab, look
from tests.ledger.actors import USING, execute, expire_leases, operator, submit_task

#: As long as names get, without a place to break them.
LONG = "x" * 120
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/srv/shop/mail.py", line 4, in send\n    deliver(message)\n'
    f'  File "/x/site-packages/gateway.py", line 9, in {LONG}\n    raise Refused\ngateway.Refused: no'
)


def eventful_task(ledger: Ledger) -> UUID:
    """Return a queued task with attempts of several outcomes and a late report, in a paused queue."""
    task = submit_task(priority=90, max_attempts=9, retry_on=("crashed", "lost", "gateway.Refused"))
    error = ErrorReport(classes=("gateway.Refused",), message=LONG, traceback=TRACEBACK)
    reports: dict[Outcome, dict[str, Any]] = {Outcome.CRASHED: {}, Outcome.FAILED: {"error": error, "output": LONG}}
    for outcome, report in reports.items():
        execute("update ledgence_deliveryintent set available_at = now() where task_id = %s", [task])
        ledger.worker.settle(ledger.worker.acquire_one(), outcome, **report)
    execute(
        "update ledgence_attempt set outcome = 'lost', late_outcome = 'succeeded', late_at = now(), settlement = null, "
        "late_settlement = 'x' where task_id = %s and number = 1",
        [task],
    )
    pause([ledger.queue.pk], operator(LONG), using=USING)
    return task


def test_a_task_that_several_causes_hold_up_is_sound(ledger: Ledger, op: Callable[..., Tab]) -> None:
    assert look(op, page_of("task", "change", eventful_task(ledger))) == []


def test_a_task_of_an_external_queue_is_sound(ledger: Ledger, op: Callable[..., Tab]) -> None:
    assert look(op, page_of("task", "change", external_task())) == []


def test_a_task_whose_lease_is_over_is_sound(ledger: Ledger, op: Callable[..., Tab]) -> None:
    expire_leases(ledger.active)
    assert look(op, page_of("task", "change", ledger.active)) == []


def test_a_task_of_many_attempts_is_sound(ledger: Ledger, op: Callable[..., Tab]) -> None:
    execute(
        "insert into ledgence_attempt (task_id, number, cause, outcome, finished_at, delivery_mode, available_at) "
        "select %s, n, 'crashed', 'cancelled', now() + n * interval '1 s', 'integrated', now() "
        "from generate_series(2, 80) n",
        [ledger.failed],
    )
    assert look(op, page_of("task", "change", ledger.failed)) == []


@pytest.mark.parametrize("has_scripts", [True, False], ids=["scripts", "no scripts"])
def test_the_cause_leads_to_its_remedy(has_scripts: bool, ledger: Ledger, op: Callable[..., Tab]) -> None:
    pause([ledger.queue.pk], operator("the disk is full"), using=USING)
    tab = op(has_scripts=has_scripts, width=NARROW)
    page = tab.open(page_of("task", "change", ledger.queued))
    expect(page.get_by_role("heading", name="Why is it not running?")).to_be_visible()
    expect(page.get_by_text("because “the disk is full”.")).to_be_visible()
    page.get_by_role("link", name="queue default").first.click()
    expect(page.get_by_role("link", name="Resume…")).to_be_visible()
    assert tab.problems() == []


def test_the_drawing_has_a_name_and_all_frames_unfold(ledger: Ledger, op: Callable[..., Tab]) -> None:
    page = op(width=NARROW).open(page_of("task", "change", eventful_task(ledger)))
    drawing = page.get_by_role("img", name="Attempts from")
    expect(drawing).to_be_visible()
    labels = drawing.locator("text")
    expect(labels).to_have_count(3)
    box = drawing.bounding_box()
    assert box is not None
    for label in labels.all():
        place = label.bounding_box()
        assert place is not None and box["x"] - 1 <= place["x"]
        assert place["x"] + place["width"] <= box["x"] + box["width"] + 1
    expect(page.get_by_text("site-packages")).to_be_hidden()
    page.get_by_text("With the frames of installed packages").click()
    expect(page.get_by_text("site-packages")).to_be_visible()
