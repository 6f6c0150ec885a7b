"""The pages of single rows and the forms, in a real browser under a strict policy."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.admin.conftest import VIEWED, Ledger
from tests.admin.test_pages import page_of, pages_of
from tests.browser.looking import Tab, look

#: What a confirmation may have on it: one row with nothing to say; several of which some are skipped; a sharp warning.
CONFIRMATIONS = [
    ("task", "requeue", ("failed",)),
    ("task", "cancel", ("queued", "active", "succeeded")),
    ("lease", "force_expire", ("active",)),
]


@pytest.mark.parametrize("model", VIEWED)
def test_a_row_is_sound(model: str, ledger: Ledger, op: Callable[..., Tab]) -> None:
    # Of several tasks the failed one has most to show.
    pk = ledger.failed if model == "task" else dict(pages_of(ledger))[model]
    assert look(op, page_of(model, "change", pk)) == []


@pytest.mark.parametrize("state", ["queued", "active", "succeeded", "cancelled", "requeued"])
def test_a_task_is_sound_in_every_state(state: str, ledger: Ledger, op: Callable[..., Tab]) -> None:
    tab = op()
    tab.open(page_of("task", "change", getattr(ledger, state)))
    assert tab.problems() == []


@pytest.mark.parametrize(("model", "action", "states"), CONFIRMATIONS, ids=lambda part: str(part).replace("'", ""))
def test_a_confirmation_is_sound(
    model: str, action: str, states: tuple[str, ...], ledger: Ledger, op: Callable[..., Tab]
) -> None:
    ids = ",".join(str(getattr(ledger, state)) for state in states)
    assert look(op, page_of(model, action, ids=ids)) == []


def test_the_form_of_a_token_is_sound(ledger: Ledger, op: Callable[..., Tab]) -> None:
    assert look(op, page_of("apitoken", "add")) == []


def test_the_text_of_a_token_is_shown_once(ledger: Ledger, op: Callable[..., Tab]) -> None:
    tab = op()
    page = tab.open(page_of("apitoken", "add"))
    page.locator("#id_name").fill("laptop")
    page.get_by_label("work: be a worker").check()
    page.get_by_label("Reason").fill("for the new laptop")
    page.get_by_role("button", name="Issue").click()
    expect(page.locator("#ledgence-token")).to_contain_text("ldg_")
    assert tab.problems() == [] and tab.axe() == []


def test_a_viewer_is_offered_no_tool(ledger: Ledger, viewer: Callable[..., Tab]) -> None:
    page = viewer().open(page_of("task", "change", ledger.failed))
    expect(page.locator(".object-tools")).to_have_count(0)


def test_history_is_sound(ledger: Ledger, op: Callable[..., Tab]) -> None:
    tab = op()
    tab.open(page_of("task", "history", ledger.failed))
    assert tab.problems() == []
