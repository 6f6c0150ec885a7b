"""The pages of a task's attempts, which end by number and by bytes; and the reports that stand in them."""

from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from ledgence.http import tasks
from ledgence.models import Attempt
from ledgence_worker import limits
from tests.http.scene import Scene, make_token, settlement
from tests.http.site import Site
from tests.ledger.actors import submit_task


def make_attempts(sizes: list[int]) -> UUID:
    """Make a task whose attempts have reports of these sizes."""
    task = submit_task()
    ended: dict[str, Any] = {"outcome": "cancelled", "consequence": "cancelled", "finished_at": timezone.now()}
    common = {"task_id": task, "cause": "requeued", "delivery_mode": "integrated", "available_at": timezone.now()}
    Attempt.objects.bulk_create(
        Attempt(number=number, report="x" * (size - 2), **common, **ended) for number, size in enumerate(sizes, 1)
    )
    return task


def pages(site: Site, task: UUID) -> list[list[int]]:
    token, query = make_token(), ""
    found: list[list[int]] = []
    while True:
        page = site.ask("GET", f"tasks/{task}/attempts", query=query, token=token).assert_ok()
        found.append([attempt["number"] for attempt in page["attempts"]])
        if "next_cursor" not in page:
            return found
        query = f"cursor={page['next_cursor']}"


def test_a_page_ends_by_number_and_by_the_bytes_of_its_reports(
    site: Site, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One attempt is told whatever its size."""
    task = make_attempts([10, 10, 10, 100, 10, 10])
    assert pages(site, task) == [[1, 2, 3, 4, 5, 6]]
    monkeypatch.setattr(tasks, "ATTEMPTS_BYTES", 30)
    assert pages(site, task) == [[1, 2, 3], [4], [5, 6]]
    monkeypatch.setattr(tasks, "ATTEMPTS_PAGE", 2)
    assert pages(site, task) == [[1, 2], [3], [4], [5, 6]]


def report(byte: str) -> dict[str, Any]:
    """Return the largest report that a worker makes, of one byte alone."""
    return {
        "error": {
            "classes": [byte * 256] * 64,
            "message": byte * limits.ERROR_MESSAGE_BYTES,
            "traceback": byte * limits.TRACEBACK_BYTES,
        },
        "output": byte * limits.OUTPUT_TAIL_BYTES,
        "seconds": 1.0,
    }


def test_the_largest_report_of_a_worker_is_taken_and_a_larger_one_is_not(site: Site, scene: Scene) -> None:
    path = f"sessions/{scene.session}/settle"
    largest = report("\x01")
    larger = largest | {"output": "x" * limits.REPORT_BYTES}
    for given, status in ((larger, 400), (largest, 200)):
        end = settlement(scene.active, outcome="failed", result=None, report=given)
        answer = site.ask("POST", path, {"settlements": [end]}, token=scene.token)
        if status == 400:
            assert "at most 524288 are kept" in answer.assert_problem(400, "invalid_input")
        else:
            assert answer.assert_ok()["settled"][0]["status"] == "accepted"
