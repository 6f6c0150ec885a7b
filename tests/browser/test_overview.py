"""The overview in a real browser: it can be read by everybody, and refreshes without being in anybody's way."""

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from ledgence.admin import overview as module
from ledgence.operations.queues import pause, resume
from tests.admin.conftest import Ledger
from tests.admin.test_overview import FRAGMENT, INDEX, roll_up
from tests.admin.test_pages import fall_silent
from tests.browser.looking import Tab, look
from tests.ledger.actors import USING, execute, expire_leases, operator

PERIOD = 10_000


@pytest.fixture(autouse=True)
def nothing_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every refresh look at the database."""
    monkeypatch.setattr(module, "SHARED_SECONDS", -1.0)


@pytest.fixture
def broken(ledger: Ledger) -> Ledger:
    """A ledger with every kind of trouble."""
    for minutes_ago in range(2, 60):
        roll_up(ledger.queue, minutes_ago, claimed=100, succeeded=90, failed=minutes_ago % 7, retried=20)
    expire_leases()
    fall_silent(ledger)
    execute("update ledgence_deliveryintent set available_at = now() - interval '2 h'")
    pause([ledger.queue.pk], operator(), using=USING)
    return ledger


# Counted where they are called: that a request was sent, and its answer read, is told later.
COUNT = """
window.asked = 0, window.waited = 0;
const [call, later] = [window.fetch, window.setTimeout];
window.fetch = (...all) => (window.asked += 1, call(...all));
window.setTimeout = (...all) => (window.waited += 1, later(...all));
"""


class Watched:
    """The overview in a tab whose clock the test moves."""

    def __init__(self, tab: Tab) -> None:
        self.tab, self.page = tab, tab.page
        self.page.clock.install()
        self.page.context.add_init_script(COUNT)
        tab.open(INDEX)

    def asks(self, milliseconds: int = 5 * PERIOD) -> int:
        """Let time pass, and return how often the page asked for the fragment."""
        before: int = self.page.evaluate("window.asked")
        self.page.clock.run_for(milliseconds)
        return int(self.page.evaluate("window.asked")) - before

    def refresh(self, milliseconds: int = PERIOD) -> int:
        """Let time pass until the page asks, has taken the answer in and waits again; return the answer's status."""
        before, deadline = self.page.evaluate("window.waited"), time.monotonic() + 15
        with self.page.expect_response(f"**{FRAGMENT}*") as answer:
            self.page.clock.run_for(milliseconds)
        while self.page.evaluate("window.waited") == before:
            assert time.monotonic() < deadline, "the page does not wait for the next refresh"
        return answer.value.status


@pytest.fixture
def watched(ledger: Ledger, op: Callable[..., Tab]) -> Watched:
    # What is due would be older with each second.
    execute("update ledgence_deliveryintent set available_at = now() + interval '1 h'")
    return Watched(op())


def pause_queue(ledger: Ledger) -> None:
    pause([ledger.queue.pk], operator(), using=USING)


def paused_card(page: Page):
    return page.locator(".ledgence-alarm", has_text=re.compile(r"\d\s+paused queue"))


@pytest.mark.parametrize("state", ["quiet", "broken"])
def test_it_is_sound(state: str, request: pytest.FixtureRequest, op: Callable[..., Tab]) -> None:
    if state == "broken":
        request.getfixturevalue("broken")
    assert look(op, INDEX) == []


def test_it_shows_everything_without_scripts(broken: Ledger, op: Callable[..., Tab]) -> None:
    page = op(has_scripts=False).open(INDEX)
    expect(paused_card(page)).to_be_visible()
    expect(page.locator(".ledgence-line-succeeded").first).to_be_attached()
    expect(page.locator("#ledgence-refresh")).to_be_hidden()
    page.locator("#ledgence-figures-throughput summary").click()
    expect(page.get_by_role("columnheader", name="succeeded, at most")).to_be_visible()


def test_it_refreshes_and_says_what_is_new(watched: Watched, ledger: Ledger) -> None:
    assert watched.asks(PERIOD - 1000) == 0
    pause_queue(ledger)
    assert watched.refresh(1000) == 200
    expect(paused_card(watched.page)).to_be_visible()
    expect(watched.page.locator("#ledgence-summary")).to_contain_text("1 paused queue")
    assert watched.tab.problems() == []


def test_what_has_not_changed_is_left_as_it_stands(watched: Watched) -> None:
    watched.page.evaluate("document.querySelector('.ledgence-cards').id = 'marked'")
    assert watched.refresh() == watched.refresh() == 304
    expect(watched.page.locator("#marked")).to_have_count(1)


def test_it_stops_while_it_is_not_seen_and_goes_on_at_once(watched: Watched) -> None:
    hide = "is => Object.defineProperty(document, 'hidden', { get: () => is, configurable: true })"
    watched.page.evaluate(hide, True)
    assert watched.asks() == 0
    watched.page.evaluate(hide, False)
    with watched.page.expect_response(f"**{FRAGMENT}*"):
        watched.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_it_stops_while_somebody_is_in_it(watched: Watched, ledger: Ledger) -> None:
    pause_queue(ledger)
    watched.page.locator(".ledgence-card a").first.focus()
    assert watched.asks() == 0
    watched.page.locator(".ledgence-card a").first.blur()
    assert watched.refresh() == 200
    watched.page.locator("#ledgence-queues").select_text()
    assert watched.asks() == 0


def test_it_can_be_stopped(watched: Watched) -> None:
    watched.page.get_by_label("Refresh every 10 s").uncheck()
    assert watched.asks() == 0
    watched.page.get_by_label("Refresh every 10 s").check()
    assert watched.refresh() == 304


def test_figures_that_are_open_stay_open(watched: Watched, ledger: Ledger) -> None:
    summary = watched.page.locator("#ledgence-figures-waits summary")
    summary.click()
    summary.blur()
    pause_queue(ledger)
    assert watched.refresh() == 200
    expect(watched.page.locator("#ledgence-figures-waits")).to_have_attribute("open", "")
    expect(watched.page.locator("#ledgence-figures-throughput")).not_to_have_attribute("open", "")


def test_it_asks_ever_more_rarely_while_the_server_does_not_answer(watched: Watched) -> None:
    page = watched.page
    page.route(f"**{FRAGMENT}*", lambda route: route.fulfill(status=503))
    note = page.locator("#ledgence-refresh [role=status]")
    for seconds in (10, 20, 40, 80, 80):
        assert watched.asks((seconds - 1) * 1000) == 0
        assert watched.refresh(1000) == 503
        expect(note).to_have_text("The server does not answer: the figures are old.")
    page.unroute(f"**{FRAGMENT}*")
    assert watched.refresh(8 * PERIOD) == 304
    expect(note).to_have_text("")


def test_it_says_when_the_viewer_is_signed_out_and_asks_no_more(watched: Watched) -> None:
    watched.page.context.clear_cookies()
    assert watched.asks(PERIOD) == 1
    expect(watched.page.locator("#ledgence-refresh [role=status]")).to_have_text(
        "You are signed out: the figures are old."
    )
    assert watched.asks(10 * PERIOD) == 0


def test_cause_and_remedy_are_a_few_clicks_away(broken: Ledger, op: Callable[..., Tab]) -> None:
    page = op().open(INDEX)
    page.get_by_role("link", name="1 expired lease").click()
    page.locator("#result_list tbody th a").click()
    page.get_by_role("link", name="Force-expire lease…").click()
    expect(page.get_by_text("1 of 1 lease is eligible now.").or_(page.get_by_text("1 of 1 task"))).to_be_visible()
    page.goto(INDEX)
    paused_card(page).get_by_role("link").click()
    expect(page.get_by_role("link", name="Resume…")).to_be_visible()
    resume([broken.queue.pk], operator(), using=USING)
    page.goto(INDEX)
    expect(paused_card(page)).to_have_count(0)
