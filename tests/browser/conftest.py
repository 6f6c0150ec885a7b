"""Fixtures of the browser's tests: Debian's Chromium, a server under a strict policy, and who is signed in."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from django.test import override_settings
from django.utils.csp import CSP
from playwright.sync_api import Browser, sync_playwright
from pytest_django.live_server_helper import LiveServer

from tests.admin.conftest import OPERATIONS, VIEWED, ledger, make_client
from tests.browser.looking import Tab

__all__ = ["ledger"]

#: As root Chromium has no sandbox; the rest keeps it from calling anybody.
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: Nothing inline, nothing from elsewhere.
POLICY = {
    "default-src": [CSP.NONE],
    "script-src": [CSP.SELF],
    "style-src": [CSP.SELF],
    "img-src": [CSP.SELF, "data:"],
    "connect-src": [CSP.SELF],
    "form-action": [CSP.SELF],
    "base-uri": [CSP.NONE],
    "frame-ancestors": [CSP.NONE],
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything here: a browser is driven, and what it sees has been committed."""
    for item in items:
        if item.nodeid.startswith("tests/browser/"):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.django_db(transaction=True))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for the tests of one file.

    Its client runs an event loop on the tests' own thread, which takes it for an asynchronous one until the client is
    stopped: tests of other files would be refused the ORM. Here it may be used, since the loop waits meanwhile.
    """
    executable = shutil.which("chromium")
    assert executable, "There is no Chromium on the PATH (on Debian: apt-get install chromium)."
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=executable, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def site(django_db_setup: None) -> Iterator[str]:
    """The address of a server of the project under the policy."""
    from django.conf import settings

    middleware = ["django.middleware.csp.ContentSecurityPolicyMiddleware", *settings.MIDDLEWARE]
    with ExitStack() as stack:
        stack.enter_context(override_settings(MIDDLEWARE=middleware, SECURE_CSP=POLICY))
        server = LiveServer("localhost")
        stack.callback(server.stop)
        yield server.url


@pytest.fixture
def sign_in(transactional_db: None, chromium: Browser, site: str) -> Iterator[Callable[..., Tab]]:
    """Open tabs for one new member of staff with the named permissions; all of them are closed at the end."""
    with ExitStack() as stack:

        def open_tab(*codenames: str, **kind: Any) -> Tab:
            key = str(make_client(*codenames).cookies["sessionid"].value)
            return stack.enter_context(Tab(chromium, site, key, **kind))

        yield open_tab


VIEWS = tuple(f"view_{model}" for model in VIEWED)


@pytest.fixture
def op(sign_in: Callable[..., Tab]) -> Callable[..., Tab]:
    """Open tabs for somebody who sees everything and may do everything."""
    return partial(sign_in, *VIEWS, *OPERATIONS)


@pytest.fixture
def viewer(sign_in: Callable[..., Tab]) -> Callable[..., Tab]:
    """Open tabs for somebody who sees everything and may do nothing."""
    return partial(sign_in, *VIEWS)
