"""What an operator does, by hand: with a pointer, with the keyboard alone, and in a browser that runs no scripts."""

from collections.abc import Callable
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from ledgence.models import OperatorAction
from tests.admin.conftest import Ledger
from tests.admin.test_actions import REASON
from tests.admin.test_pages import page_of
from tests.browser.looking import Tab
from tests.ledger.actors import outcomes_of, state_of, submit_tasks

WITH_AND_WITHOUT = pytest.mark.parametrize("has_scripts", [True, False], ids=["scripts", "no scripts"])


def tick(page: Page, *tasks: UUID) -> None:
    for task in tasks:
        page.locator(f"input.action-select[value='{task}']").check()


@WITH_AND_WITHOUT
def test_a_task_is_requeued_from_its_page(has_scripts: bool, ledger: Ledger, op: Callable[..., Tab]) -> None:
    tab = op(has_scripts=has_scripts)
    page = tab.open(page_of("task", "change", ledger.failed))
    page.get_by_role("link", name="Requeue…", exact=True).click()
    # Long enough for the browser; the server knows better.
    page.get_by_label("Reason").fill(" " * 5)
    page.get_by_role("button", name="Requeue").click()
    expect(page.get_by_text("This field is required.")).to_be_visible()
    assert state_of(ledger.failed) == "failed"
    page.get_by_label("Reason").fill(REASON)
    page.get_by_role("button", name="Requeue").click()
    expect(page.get_by_text("Requeue: changed 1 task, skipped 0.")).to_be_visible()
    expect(page.locator(".ledgence-queued").first).to_be_visible()
    assert state_of(ledger.failed) == "queued"
    page.get_by_role("link", name="See the record").click()
    expect(page.get_by_text(REASON)).to_be_visible()
    assert tab.problems() == []


@WITH_AND_WITHOUT
def test_tasks_are_cancelled_from_the_list(has_scripts: bool, ledger: Ledger, op: Callable[..., Tab]) -> None:
    more = submit_tasks(2)
    tab = op(has_scripts=has_scripts)
    page = tab.open(page_of("task"))
    tick(page, *more, ledger.succeeded)
    page.locator("select[name=action]").select_option(label="Cancel…")
    page.locator("button[name=index]").first.click()
    expect(page.get_by_text("2 of 3 tasks are eligible now.")).to_be_visible()
    page.get_by_label("Reason").fill(REASON)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Cancel: changed 2 tasks, skipped 1 (1 ended before).")).to_be_visible()
    assert [state_of(task) for task in more] == ["cancelled", "cancelled"]
    assert tab.problems() == []


def test_a_form_that_is_sent_twice_acts_once(ledger: Ledger, op: Callable[..., Tab]) -> None:
    page = op().open(page_of("task", "requeue", ids=str(ledger.failed)))
    page.get_by_label("Reason").fill(REASON)
    form = page.evaluate("Object.fromEntries(new FormData(document.querySelector('#content-main form')))")
    for _ in range(2):
        reply = page.request.post(page_of("task", "requeue"), form=form)
        assert reply.status == 200
        assert "Requeue: changed 1 task, skipped 0." in reply.text()
    assert OperatorAction.objects.filter(kind="requeue", reason=REASON).count() == 1
    assert outcomes_of(ledger.failed) == ["failed"]


def test_two_operators_requeue_one_task_once(ledger: Ledger, op: Callable[..., Tab]) -> None:
    pages = [op().open(page_of("task", "requeue", ids=str(ledger.failed))) for _ in range(2)]
    for page in pages:
        page.get_by_label("Reason").fill(REASON)
        page.get_by_role("button", name="Requeue").click()
    expect(pages[0].get_by_text("Requeue: changed 1 task, skipped 0.")).to_be_visible()
    expect(pages[1].get_by_text("Requeue: changed 0 tasks, skipped 1")).to_be_visible()


def test_a_task_is_requeued_with_the_keyboard_alone(ledger: Ledger, op: Callable[..., Tab]) -> None:
    page = op().open(page_of("task", "change", ledger.failed))

    def move_to(role: str, name: str) -> None:
        wanted = page.get_by_role(role, name=name, exact=True).element_handle()  # type: ignore[arg-type]
        for _ in range(100):
            page.keyboard.press("Tab")
            if page.evaluate("element => document.activeElement === element", wanted):
                return
        raise AssertionError(f"100 tabs did not lead to {name!r}")

    move_to("link", "Requeue…")
    page.keyboard.press("Enter")
    # The form begins at the reason.
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type(REASON)
    move_to("button", "Requeue")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Requeue: changed 1 task, skipped 0.")).to_be_visible()
    assert state_of(ledger.failed) == "queued"


def test_a_queue_is_paused_and_resumed(ledger: Ledger, op: Callable[..., Tab]) -> None:
    tab = op()
    page = tab.open(page_of("queue", "change", ledger.queue.pk))
    for label, told in (("Pause", "paused"), ("Resume", "open")):
        page.get_by_role("link", name=f"{label}…", exact=True).click()
        page.get_by_label("Reason").fill(REASON)
        page.get_by_role("button", name=label).click()
        expect(page.get_by_text(f"{label}: changed 1 queue, skipped 0.")).to_be_visible()
        expect(page.locator(".field-state .ledgence-badge")).to_have_text(told)
    assert tab.problems() == []


def test_the_browser_tells_that_a_reason_is_too_short(ledger: Ledger, op: Callable[..., Tab]) -> None:
    page = op().open(page_of("queue", "pause", ids=str(ledger.queue.pk)))
    page.get_by_label("Reason").press_sequentially("no")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.method))
    page.get_by_role("button", name="Pause").click()
    assert page.get_by_label("Reason").evaluate("field => field.validity.tooShort")
    expect(page.get_by_label("Reason")).to_be_focused()
    assert "POST" not in asked


def test_who_signs_out_is_led_to_the_login_page(ledger: Ledger, op: Callable[..., Tab]) -> None:
    tab = op()
    page = tab.open(page_of("task"))
    page.get_by_role("button", name="Log out").click()
    page.goto(page_of("task"))
    expect(page.locator("input[name=password]")).to_be_visible()
    assert tab.trouble == [] and tab.axe() == []
