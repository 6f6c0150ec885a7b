"""manage.py ledgence_status: how the ledger is now, for people and for programs."""

import json
import re
from typing import Any

import pytest

from ledgence.models import Queue
from ledgence.operations.queues import pause
from ledgence.operations.routes import QueueName, activate
from tests.ledger.actors import PROGRAM, USING, Worker, execute, operator, submit_task, submit_tasks
from tests.terminal import Terminal

pytestmark = pytest.mark.django_db


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal("ledgence_status", capsys)


NO_HOUSEKEEPING = (
    "No process does the housekeeping that ends expired leases: start manage.py ledgence_recover, or a worker beside "
    "the database."
)


def told(command: Terminal) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(command("--format", "json"))
    return value


def rows(text: str, title: str) -> list[list[str]]:
    """Return the cells of the table that begins with a title."""
    block = text[text.index(title) :].split("\n\n")[0]
    return [re.split(r" {2,}", line) for line in block.splitlines()[1:]]


def test_an_empty_ledger_says_so(command: Terminal) -> None:
    assert command().splitlines() == [
        "No queue is known: nothing was ever submitted.",
        "",
        "No worker session is open.",
        "",
        f"! Housekeeping: {NO_HOUSEKEEPING}",
    ]
    assert told(command) == {
        "queues": [],
        "sessions": [],
        "publishers": [],
        "housekeeping_seconds": None,
        "unserved": [],
        "unpublished": [],
        "old_snapshots": [],
    }


def test_queues_are_told_with_their_work(command: Terminal) -> None:
    worker = Worker()
    submit_tasks(3)
    worker.acquire_one()
    later = submit_task()
    execute("update ledgence_deliveryintent set available_at = now() + interval '1 h' where task_id = %s", [later])
    submit_task(queue="mail")
    pause([Queue.objects.get(name="mail").pk], operator("server moves"), using=USING)
    default, mail = rows(command(), "QUEUE")
    assert [default[0], default[1], default[2], default[4], default[5]] == ["default", "open", "2", "1", "1"]
    assert (mail[0], mail[1], mail[2]) == ("mail", "paused", "1")
    assert re.search(r"(?m)^! Queue mail is paused by op since 20.* UTC: server moves$", command())
    known = told(command)["queues"]
    assert [(queue["queue"], queue["due"], queue["later"], queue["active"]) for queue in known] == [
        ("default", 2, 1, 1),
        ("mail", 1, 0, 0),
    ]
    assert (known[1]["paused_by"], known[1]["pause_reason"]) == ("op", "server moves")
    assert known[1]["paused_at"].startswith("20")
    assert 0 <= known[0]["oldest_due_seconds"] < 60


def test_workers_are_told_with_what_they_run(command: Terminal) -> None:
    Worker(queues=("a", "b"), exclude_queues=("c",))
    execute("update ledgence_workersession set extended_at = now() - interval '40 s'")
    worker = Worker()
    submit_task()
    worker.acquire_one()
    live, silent = sorted(rows(command(), "WORKER"), key=lambda row: row[1])
    assert live[1:3] == ["live", "1 of 8"]
    assert silent[1:3] == ["silent", "0 of 8"]
    assert (live[4], silent[4]) == ("all", "a,b but c")
    known = {session["id"]: session for session in told(command)["sessions"]}
    assert known[str(worker.session_id)]["running"] == [f"{PROGRAM} 1"]
    assert known[str(worker.session_id)]["is_silent"] is False
    [marked] = re.findall(r"(?m)^! Worker (.*)$", command())
    assert marked.startswith("tests (localhost:1) is silent: heard of 4")
    assert "serves" not in known[str(worker.session_id)]
    execute("update ledgence_workersession set drain_requested_at = now()")
    assert sorted(row[1] for row in rows(command(), "WORKER")) == ["draining", "silent"]


def test_publishers_are_told_with_what_fails(command: Terminal) -> None:
    assert "PUBLISHER" not in command()
    activate({QueueName(tenant="default", namespace="default", queue="mail"): "arn:mail"}, operator(), using=USING)
    execute(
        "insert into ledgence_publisher (id, queue_id, host, pid, version, started_at, turned_at, failure) "
        "select gen_random_uuid(), id, 'p1', 7, '0', now(), now() - interval '70 s', E'refused\\x1b[2J' "
        "from ledgence_queue"
    )
    [row] = rows(command(), "PUBLISHER")
    assert row[:2] == ["mail (p1:7)", "silent"]
    assert row[-1] == "refused\\u001b[2J"
    [known] = told(command)["publishers"]
    assert (known["queue"], known["is_live"], known["answered_seconds"]) == ("mail", False, None)
    mark = (
        "! Queue mail has no live publisher: its work reaches no worker. "
        "Start manage.py ledgence_publisher with its route."
    )
    assert mark in command().splitlines()
    assert told(command)["unpublished"][0]["destination"] == "arn:mail"
    execute("update ledgence_publisher set turned_at = now()")
    assert mark not in command()
    assert told(command)["unpublished"] == []


def test_housekeeping_and_unserved_work_are_told(command: Terminal) -> None:
    execute("insert into ledgence_housekeepingturn (id, turned_at) values (1, now())")
    assert re.search(r"(?m)^Housekeeping: turned \d", command())
    execute("update ledgence_housekeepingturn set turned_at = now() - interval '100 s'")
    submit_task()
    execute("update ledgence_deliveryintent set available_at = now() - interval '2 min'")
    lines = command().splitlines()
    assert lines[-2].startswith("! Housekeeping: turned 1 min 40 s ago")
    assert lines[-1] == f"! Queue default has 1 due tasks of {PROGRAM} 1, which no live worker runs."
    assert told(command)["unserved"][0]["tasks"] == 1


def test_counts_end_at_the_cap(command: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgence.status.COUNT_CAP", 3)
    monkeypatch.setattr("ledgence.management.commands.ledgence_status.COUNT_CAP", 3)
    submit_tasks(5)
    assert rows(command(), "QUEUE")[0][2] == "3+"
