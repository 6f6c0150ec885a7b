"""A tab of the browser that notes whatever goes wrong in it, and how a page is looked at."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from types import TracebackType
from typing import Any, Self

from playwright.sync_api import Browser, ConsoleMessage, Page, Request

WIDE, NARROW = 1280, 390
SCHEMES = ("light", "dark")

# In the page's own world, so that the policy reports to it; the console hears of violations too.
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
  window.violations.push(`${violatedDirective} ${blockedURI}`);
});
"""
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text()
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}


# No slots: the browser's client keeps notes of its own on whatever listens.
@dataclass
class Tab:
    """One tab of a context of its own, signed in by a session's key. Use it as a context manager."""

    browser: Browser
    address: str
    session_key: str
    scheme: str = "light"
    width: int = WIDE
    has_scripts: bool = True
    trouble: list[str] = field(default_factory=list)
    page: Page = field(init=False)

    def __enter__(self) -> Self:
        # A scheme for each context: one that changes while a page stands is caught half way in its transition.
        scheme: Any = self.scheme
        context = self.browser.new_context(
            base_url=self.address,
            color_scheme=scheme,
            viewport={"width": self.width, "height": 900},
            java_script_enabled=self.has_scripts,
            reduced_motion="reduce",
            locale="en-US",
        )
        context.set_default_timeout(15_000)
        context.add_init_script(WATCH)
        context.route("**/favicon.ico", lambda route: route.fulfill(status=204))
        if self.session_key:
            context.add_cookies([{"name": "sessionid", "value": self.session_key, "url": self.address}])
        self.page = context.new_page()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.trouble.append(f"page error: {error}"))
        self.page.on("requestfailed", self._miss)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.page.context.close()

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.trouble.append(f"console: {message.text}")

    def _miss(self, request: Request) -> None:
        # A page that is left breaks off what it still loads.
        if request.failure != "net::ERR_ABORTED":
            self.trouble.append(f"request failed: {request.method} {request.url} {request.failure}")

    def open(self, path: str) -> Page:
        """Go to a page, which must answer with 200."""
        response = self.page.goto(path)
        assert response is not None and response.status == 200, f"{path}: {response and response.status}"
        return self.page

    def problems(self) -> list[str]:
        """Return what is wrong with the page as it stands, beside the trouble noted so far; empty for a good page."""
        page, found = self.page, list(self.trouble)
        # After a link, what is looked for may stand before its style does.
        page.wait_for_load_state()
        if self.has_scripts:
            found += [f"policy: {violation}" for violation in page.evaluate("window.violations")]
        if (headings := page.locator("h1:visible").count()) != 1:
            found.append(f"{headings} main headings")
        if overflow := self.overflow():
            found.append(f"{overflow} px too wide")
        return found

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        width: int = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return width

    def axe(self) -> list[str]:
        """Return what axe finds by the rules of WCAG 2.2 A and AA; in the dark, what differs there."""
        options = RULES if self.scheme == "light" else {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
        self.page.evaluate(AXE)
        found = self.page.evaluate("options => axe.run(options)", options)["violations"]
        return [f"{one['id']}: {[node['html'][:160] for node in one['nodes'][:3]]}" for one in found]


def look(open_tab: Callable[..., Tab], path: str) -> list[str]:
    """Look at a page in light and dark, wide and narrow, and return everything that is wrong with it."""
    found: list[str] = []
    for scheme in SCHEMES:
        tab = open_tab(scheme=scheme)
        tab.open(path)
        found += [f"{scheme}: {problem}" for problem in (*tab.problems(), *tab.axe())]
        tab.page.set_viewport_size({"width": NARROW, "height": 844})
        found += [f"{scheme}, narrow: {problem}" for problem in tab.problems()]
    return found
