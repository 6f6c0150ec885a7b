"""Pages in a language that is longer, and in one that is written from right to left."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.admin.conftest import Ledger
from tests.admin.test_overview import INDEX, roll_up
from tests.admin.test_pages import page_of
from tests.browser.looking import Tab, look


@pytest.mark.parametrize(("language", "direction"), [("de", "ltr"), ("ar", "rtl")])
def test_pages_are_sound_in_another_language(
    language: str, direction: str, ledger: Ledger, op: Callable[..., Tab], settings
) -> None:
    settings.LANGUAGE_CODE = language
    roll_up(ledger.queue, 5, claimed=5, succeeded=5)
    expect(op().open(INDEX).locator("html")).to_have_attribute("dir", direction)
    for path in (INDEX, page_of("task"), page_of("task", "change", ledger.failed)):
        assert look(op, path) == [], path
