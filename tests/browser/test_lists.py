"""Every list, in a real browser under a strict policy: nothing complains, nothing is too wide, everybody can use it."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.admin.conftest import VIEWED, Ledger
from tests.admin.test_pages import page_of
from tests.browser.looking import Tab, look

NARROWED = [
    ("task", {"state": "failed"}),
    ("task", {"q": "nothing has this key"}),
    ("lease", {"state": "expired"}),
    ("deliveryintent", {"stuck": "unserved"}),
    ("workersession", {"state": "all"}),
]


@pytest.mark.parametrize("model", VIEWED)
def test_a_list_is_sound(model: str, ledger: Ledger, op: Callable[..., Tab]) -> None:
    assert look(op, page_of(model)) == []


@pytest.mark.parametrize(("model", "query"), NARROWED, ids=lambda part: part if isinstance(part, str) else None)
def test_a_narrowed_list_is_sound(model: str, query: dict[str, str], ledger: Ledger, op: Callable[..., Tab]) -> None:
    assert look(op, page_of(model, **query)) == []


def test_a_viewer_is_offered_no_action(ledger: Ledger, viewer: Callable[..., Tab]) -> None:
    expect(viewer().open(page_of("task")).locator("select[name=action]")).to_have_count(0)


def test_filters_and_search_are_used_by_hand(ledger: Ledger, viewer: Callable[..., Tab]) -> None:
    tab = viewer()
    page = tab.open(page_of("task"))
    page.get_by_role("link", name="failed", exact=True).click()
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    page.get_by_role("searchbox").fill("order-7")
    page.get_by_role("searchbox").press("Enter")
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    page.locator("#result_list tbody th a").click()
    expect(page.get_by_text("bad input").first).to_be_visible()
    assert tab.problems() == []
