"""Lists: every task of the scope once, newest first, page by page, whatever the filter; and nobody else's."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from ledgence.http import tasks
from ledgence.operations.cancel import cancel
from ledgence_worker.protocol import Outcome
from tests.http.scene import make_token
from tests.http.site import Site
from tests.ledger.actors import USING, Worker, submit_task, submit_tasks

pytestmark = pytest.mark.process


class Shelf:
    """Tasks in every state, in two queues, of two programs, beside those of another tenant."""

    def __init__(self) -> None:
        worker = Worker()
        self.ids: dict[str, list[UUID]] = {}
        for state, end in (("succeeded", Outcome.SUCCEEDED), ("failed", Outcome.FAILED)):
            self.ids[state] = submit_tasks(3, correlation_key="order", queue="a")
            for assignment in worker.acquire(3):
                worker.settle(assignment, end)
        self.ids["active"] = submit_tasks(3, queue="b")
        worker.acquire(3)
        self.ids["cancelled"] = submit_tasks(3)
        cancel(self.ids["cancelled"], using=USING)
        self.ids["queued"] = submit_tasks(3, program="tests.other", correlation_key="order")
        self.keyed = submit_task(idempotency_key="only", queue="b")
        for tenant, namespace in (("other", "default"), ("default", "other")):
            stranger = Worker(tenant=tenant, namespace=namespace)
            submit_tasks(4, tenant=tenant, namespace=namespace, correlation_key="order", idempotency_key=None)
            submit_task(tenant=tenant, namespace=namespace, idempotency_key="only")
            stranger.acquire(2)

    @property
    def all(self) -> list[UUID]:
        return sorted([*sum(self.ids.values(), []), self.keyed], reverse=True)


@pytest.fixture
def shelf(transactional_db: None) -> Shelf:
    return Shelf()


@pytest.fixture
def ask(site: Site, shelf: Shelf) -> Callable[..., list[UUID]]:
    """Ask for every page of a list, and return the ids."""
    token = make_token()

    def pages(query: str = "", limit: int = 100, token: str = token) -> list[UUID]:
        found: list[UUID] = []
        cursor = ""
        for _ in range(100):
            page = site.ask("GET", "tasks", query=f"limit={limit}{query}{cursor}", token=token).assert_ok()
            assert len(page["tasks"]) <= limit
            found += [UUID(task["id"]) for task in page["tasks"]]
            if "next_cursor" not in page:
                return found
            cursor = f"&cursor={page['next_cursor']}"
        raise AssertionError("the pages do not end")

    return pages


FILTERS: dict[str, Callable[[Shelf], list[UUID]]] = {
    "": lambda shelf: shelf.all,
    "&state=succeeded": lambda shelf: shelf.ids["succeeded"],
    "&state=failed": lambda shelf: shelf.ids["failed"],
    "&state=active": lambda shelf: shelf.ids["active"],
    "&state=cancelled": lambda shelf: shelf.ids["cancelled"],
    "&state=queued": lambda shelf: [*shelf.ids["queued"], shelf.keyed],
    "&queue=a": lambda shelf: shelf.ids["succeeded"] + shelf.ids["failed"],
    "&queue=b": lambda shelf: [*shelf.ids["active"], shelf.keyed],
    "&queue=nobody%27s": lambda shelf: [],
    "&program=tests.other": lambda shelf: shelf.ids["queued"],
    "&correlation_key=order": lambda shelf: shelf.ids["succeeded"] + shelf.ids["failed"] + shelf.ids["queued"],
    "&correlation_key=order&state=failed": lambda shelf: shelf.ids["failed"],
    "&correlation_key=order&state=queued&program=tests.work": lambda shelf: [],
    "&idempotency_key=only": lambda shelf: [shelf.keyed],
    "&idempotency_key=only&state=active": lambda shelf: [],
    "&idempotency_key=nothing": lambda shelf: [],
}


@pytest.mark.parametrize("query", FILTERS)
def test_every_task_that_matches_is_listed_once_newest_first(
    query: str, ask: Any, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A narrow window ends pages early and loses nothing."""
    expected = sorted(FILTERS[query](shelf), reverse=True)
    for window in (10_000, 5, 2, 1):
        monkeypatch.setattr(tasks, "WINDOW", window)
        for limit in (100, 2, 1):
            assert ask(query, limit) == expected, (window, limit)


def test_a_token_for_queues_sees_those_alone(ask: Any, shelf: Shelf) -> None:
    token = make_token(queues=("b", "x"))
    assert ask(token=token) == sorted([*shelf.ids["active"], shelf.keyed], reverse=True)


def test_another_tenant_sees_its_own(ask: Any, shelf: Shelf) -> None:
    found = ask("&correlation_key=order", token=make_token(tenant="other"))
    assert len(found) == 4
    assert not set(found) & set(shelf.all)


def test_a_task_is_told_with_all_that_its_status_has(site: Site, shelf: Shelf) -> None:
    token = make_token()
    for state, ids in shelf.ids.items():
        [listed] = [
            task for task in site.ask("GET", "tasks", token=token).assert_ok()["tasks"] if task["id"] == str(ids[0])
        ]
        assert listed == site.ask("GET", f"tasks/{ids[0]}", token=token).assert_ok()
        assert listed["state"] == state
        assert "data" not in listed and "result" not in listed


def test_no_page_names_a_task_outside_the_scope(site: Site, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the list nor as the place where the next page begins, however narrow the window."""
    token = make_token(queues=("b",))
    own = {str(task) for task in [*shelf.ids["active"], shelf.keyed]}
    for window in (3, 1):
        monkeypatch.setattr(tasks, "WINDOW", window)
        for query in (
            "",
            "state=queued",
            "state=active",
            "state=failed",
            "correlation_key=order",
            "idempotency_key=only",
        ):
            page, turns = site.ask("GET", "tasks", query=query, token=token).assert_ok(), 0
            while True:
                named = {task["id"] for task in page["tasks"]} | {page.get("next_cursor", str(shelf.keyed))}
                assert named <= own, (window, query)
                if "next_cursor" not in page:
                    break
                turns += 1
                assert turns <= len(own) + 1
                cursor = f"{query}&cursor={page['next_cursor']}".lstrip("&")
                page = site.ask("GET", "tasks", query=cursor, token=token).assert_ok()


def test_the_tasks_of_others_cost_no_pages(site: Site, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "WINDOW", 10)
    submit_tasks(30, tenant="other", correlation_key="order")
    submit_tasks(30, queue="a", correlation_key="order")
    token = make_token(queues=("b",))
    for query in ("", "correlation_key=order", "state=queued"):
        page = site.ask("GET", "tasks", query=query, token=token).assert_ok()
        assert "next_cursor" not in page, query
