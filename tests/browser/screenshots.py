"""Makes docs/images: the pages over the demonstration's ledger, at a fixed time and with fixed ids. Run by
``make screenshots``; not a test, so that its name is none."""

import os
import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone
from playwright.sync_api import Page

from ledgence.models import QuarantinedMessage, Queue, Task
from ledgence_project.demo.incidents import Incidents
from ledgence_project.embedded.environment import CHECKOUT
from tests.admin.test_overview import INDEX
from tests.admin.test_pages import page_of
from tests.browser.looking import NARROW, Tab
from tests.ledger.actors import USING, execute
from tests.ledger.frozen import SCHEMA

IMAGES = CHECKOUT / "docs" / "images"
EVENING = datetime(2026, 11, 30, 18, 40, 12, tzinfo=UTC)

# Nothing that the database makes up differs from run to run either.
FIXED = """
create sequence if not exists frozen.made;
create or replace function frozen.gen_random_uuid() returns uuid language sql volatile
    as $$ select md5(nextval('frozen.made')::text)::uuid $$;
create or replace function frozen.random() returns float8 language sql volatile as $$ select 0.5::float8 $$;
"""


@pytest.fixture
def evening(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let it be one moment for the database, on every connection to it, and for this process; and chance no chance."""
    database = connection.ops.quote_name(str(connection.settings_dict["NAME"]))
    execute(SCHEMA)
    execute(FIXED)
    execute("alter sequence frozen.made restart")
    execute(f"alter database {database} set search_path = frozen, public, pg_catalog")
    execute(f"alter database {database} set frozen.now = '{EVENING.isoformat()}'")
    connection.close()
    chance = random.Random(1)
    monkeypatch.setattr(os, "urandom", chance.randbytes)
    monkeypatch.setattr(time, "time_ns", lambda: int(EVENING.timestamp() * 1e9))
    monkeypatch.setattr(timezone, "now", lambda: EVENING)
    yield
    execute(f"alter database {database} reset all")
    connection.close()


def test_screenshots(evening: None, op: Callable[..., Tab]) -> None:
    Incidents(USING).make()
    IMAGES.mkdir(exist_ok=True)
    wide, dark, narrow = op(), op(scheme="dark"), op(width=NARROW)
    User.objects.update(first_name="Grace")
    shoot(wide.open(INDEX), "overview", whole=True)
    shoot(dark.open(INDEX), "overview-dark")
    shoot(narrow.open(INDEX), "overview-narrow")
    for name, path in lists().items():
        shoot(wide.open(path), name)
    poisoned = task_of("orders.import")
    shoot(wide.open(page_of("task", "change", poisoned)), "task-failed", whole=True)
    shoot(wide.open(page_of("task", "change", task_of("billing.charge"))), "task-queued")
    shoot(wide.open(page_of("task", "requeue", ids=str(poisoned))), "confirmation")
    for tab in (wide, dark, narrow):
        assert tab.trouble == []


def lists() -> dict[str, str]:
    """Return the address of each list that is shown, by the name of its image."""
    return {
        "leases-expired": page_of("lease", state="expired"),
        "intents-stuck": page_of("deliveryintent", stuck="yes"),
        "tasks-failed": page_of("task", state="failed"),
        "queues": page_of("queue"),
        "queue-paused": page_of("queue", "change", Queue.objects.get(name="reports").pk),
        "workers": page_of("workersession"),
        "quarantined-message": page_of("quarantinedmessage", "change", QuarantinedMessage.objects.latest("pk").pk),
    }


def task_of(program: str) -> UUID:
    return Task.objects.filter(program__name=program).earliest("pk").pk


def shoot(page: Page, name: str, *, whole: bool = False) -> None:
    """Make one image: of the window, or of the whole page."""
    page.screenshot(path=IMAGES / f"{name}.png", full_page=whole, animations="disabled")
