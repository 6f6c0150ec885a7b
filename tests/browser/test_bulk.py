"""Acting on all rows that a filter finds, by hand: a typed number, work in the background, progress, and a stop."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from ledgence.admin import across, selection
from ledgence.models import OperatorAction, Queue
from ledgence.operations import bulk
from ledgence.operations.bulk import Bulk
from ledgence.operations.cancel import cancel
from tests.admin.conftest import OPERATIONS, Ledger
from tests.admin.test_actions import REASON
from tests.admin.test_pages import page_of
from tests.browser.conftest import VIEWS
from tests.browser.looking import Tab, look
from tests.ledger.actors import USING, state_of, submit_tasks

COUNT = 120


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let more than a hundred rows be too many for one step, and fifty a chunk."""
    for module in (across, selection):
        monkeypatch.setattr(module, "TARGETS_MAX", 100)
    monkeypatch.setattr(bulk, "CHUNK", 50)


def narrowed() -> str:
    return page_of("task", state="queued", queue=str(Queue.objects.get(name="other").pk))


def begin(page: Page, number: str) -> None:
    """Confirm with a typed number."""
    page.locator("input[name=typed]").fill(number)
    page.get_by_label("Reason").fill(REASON)
    page.get_by_role("button", name="Cancel").click()


@pytest.mark.parametrize("has_scripts", [True, False], ids=["scripts", "no scripts"])
def test_thousands_are_acted_on_in_the_background(has_scripts: bool, ledger: Ledger, op: Callable[..., Tab]) -> None:
    tasks = submit_tasks(COUNT, queue="other")
    tab = op(has_scripts=has_scripts)
    page = tab.open(narrowed())
    page.get_by_text("Act on all rows that match").click()
    page.locator(".ledgence-across").get_by_role("link", name="Cancel…").click()
    expect(page.get_by_text("state: queued, queue: other")).to_be_visible()
    begin(page, str(COUNT - 1))
    expect(page.locator(".errorlist").first).to_be_visible()
    assert not OperatorAction.objects.filter(reason=REASON).exists()
    begin(page, str(COUNT))
    expect(page.locator("progress")).to_be_visible()
    # A task that moves on meanwhile is skipped, and told.
    cancel(tasks[-1:], using=USING)
    while Bulk(USING).turn():
        pass
    page.reload()
    expect(page.get_by_text(f"{COUNT - 1} changed, 1 skipped, of {COUNT}")).to_be_visible()
    assert {state_of(task) for task in tasks} == {"cancelled"}
    assert tab.problems() == []


def test_it_is_sound_before_while_and_after_it_runs(ledger: Ledger, op: Callable[..., Tab]) -> None:
    submit_tasks(COUNT, queue="other")
    assert look(op, f"{page_of('task', 'cancel')}?across=1&{narrowed().partition('?')[2]}") == []
    page = op().open(f"{page_of('task', 'cancel')}?across=1&{narrowed().partition('?')[2]}")
    begin(page, str(COUNT))
    action = page_of("operatoraction", "change", OperatorAction.objects.get(reason=REASON).pk)
    Bulk(USING).turn()
    assert look(op, action) == []
    page.get_by_role("link", name="Stop…").click()
    page.get_by_label("Reason").fill(REASON)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stop: changed 1 operator action, skipped 0.")).to_be_visible()
    assert look(op, action) == []


def test_all_rows_are_chosen_in_the_list_itself(ledger: Ledger, op: Callable[..., Tab]) -> None:
    submit_tasks(COUNT, queue="other")
    tab = op()
    page = tab.open(narrowed())
    page.locator("#action-toggle").check()
    page.locator(".actions .question a").click()
    page.locator("select[name=action]").select_option(label="Cancel…")
    page.locator("button[name=index]").first.click()
    expect(page.get_by_text("All rows that match:")).to_be_visible()
    expect(page.get_by_text(f"{COUNT} of {COUNT} tasks are eligible now.")).to_be_visible()
    assert tab.problems() == []


def test_without_its_permission_it_is_not_offered(ledger: Ledger, sign_in: Callable[..., Tab]) -> None:
    submit_tasks(COUNT, queue="other")
    page = sign_in(*VIEWS, *set(OPERATIONS) - {"bulk_operatoraction"}).open(narrowed())
    expect(page.locator(".ledgence-across")).to_have_count(0)
    expect(page.locator("select[name=action]")).to_have_count(1)


@pytest.mark.parametrize("action", ["move", "set_priority", "run_now"])
def test_forms_with_a_choice_are_sound(action: str, ledger: Ledger, op: Callable[..., Tab]) -> None:
    submit_tasks(1, queue="other")
    assert look(op, page_of("task", action, ids=str(ledger.queued))) == []
