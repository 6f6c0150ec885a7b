"""Every list, in a real browser under a strict policy: nothing complains, nothing is too wide, everybody can use it."""

from collections.abc import Callable

import pytest
from django.db.models import Value
from django.db.models.functions import RPad
from playwright.sync_api import expect

from ledgence.models import Program, Publisher, Queue, WorkerSession
from tests.admin.conftest import VIEWED, Ledger
from tests.admin.test_pages import page_of
from tests.browser.looking import Tab, look
from tests.ledger.actors import execute

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


@pytest.mark.parametrize("model", VIEWED)
def test_a_list_fits_beside_the_menu_and_its_filters(model: str, ledger: Ledger, op: Callable[..., Tab]) -> None:
    for named in (Queue, Program, WorkerSession):
        named.objects.update(name=RPad("name", 128, Value("-long.name_of0")))
    Publisher.objects.update(host=RPad("host", 128, Value("-long.name_of0")))
    execute("update ledgence_queue set mode = 'external', destination = rpad('arn:', 200, 'partners')")
    execute(
        "update ledgence_deliveryintent set publications = 12, next_publish_at = now(), "
        "publication_id = task_id, refusals = 1"
    )
    execute("update ledgence_lease set cancel_requested_at = now(), bound_at = now()")
    page = op().open(page_of(model))
    expect(page.locator("#nav-sidebar")).to_be_visible()
    expect(page.locator("#changelist-filter")).to_be_visible()
    cut_off = page.locator(".results").evaluate("element => element.scrollWidth - element.clientWidth")
    assert cut_off == 0


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
