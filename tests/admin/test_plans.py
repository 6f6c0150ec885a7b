"""No list of the admin reads a large table: every statement of every list is planned and run on a full ledger."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledgence.admin.paging import CAP
from ledgence.models import Queue
from ledgence.operations.bulk import ROWS_MAX
from tests.admin.conftest import Ledger
from tests.admin.test_pages import page_of
from tests.ledger.actors import execute

TASKS = 120_000

# One list needs at most the ids of CAP rows, and the rows themselves, of each of two tables and once more to count.
READ_MAX = 5 * CAP

LARGE = {"ledgence_task", "ledgence_attempt"}

FILL = """
insert into ledgence_task (id, tenant, namespace, queue_id, program_id, policy_id, priority, submitted_at, data,
                           outcome, finished_at, revision, correlation_key)
select ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, tenant, namespace, queue_id, program_id,
       policy_id, 0, now(), '{}',
       case when n %% 20 < 17 then 'succeeded' when n %% 20 < 19 then 'failed' else 'cancelled' end,
       now() - n * interval '1 s', 1, 'key-' || n %% 1000
from ledgence_task, generate_series(%(first)s, %(last)s) n where id = %(like)s;
insert into ledgence_attempt (task_id, number, cause, outcome, finished_at, delivery_mode, available_at, session_id,
                              token, claimed_at)
select t.id, 1, 'submitted', outcome, now(), 'integrated', now(), s.id, gen_random_uuid(), now()
from ledgence_task t, ledgence_workersession s
where t.id between ('00000000-0000-7000-8000-' || lpad(to_hex(%(first)s), 12, '0'))::uuid
  and '00000000-0000-7000-9000-000000000000';
insert into ledgence_task (id, tenant, namespace, queue_id, program_id, policy_id, priority, submitted_at, data,
                           revision)
select ('f0000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, tenant, namespace, queue_id, program_id,
       policy_id, 0, now(), '{}', 0
from ledgence_task, generate_series(%(first)s, %(last)s, 6) n where id = %(like)s;
insert into ledgence_deliveryintent (task_id, generation, cause, charged, queue_id, program_id, priority, available_at)
select id, 1, 'submitted', 0, queue_id, program_id, priority, now() + interval '1 h' from ledgence_task
where id >= ('f0000000-0000-7000-8000-' || lpad(to_hex(%(first)s), 12, '0'))::uuid;
"""

LISTS: list[tuple[str, dict[str, str]]] = [
    *(("task", {"state": state}) for state in ("queued", "active", "succeeded", "failed", "cancelled")),
    *(
        ("task", {"state": state, "queue": "QUEUE"})
        for state in ("queued", "active", "succeeded", "failed", "cancelled")
    ),
    *(("task", {"q": q}) for q in ("ID", "key-7", "no such key", "queue:default", "queue:rare", "program:tests.work")),
    ("task", {}),
    ("task", {"queue": "QUEUE"}),
    ("task", {"queue": "RARE"}),
    ("task", {"queue": "RARE", "state": "failed"}),
    ("task", {"p": str(CAP // 50)}),
    ("task", {"state": "failed", "p": str(CAP // 50)}),
    ("attempt", {}),
    ("attempt", {"outcome": "crashed"}),
    ("attempt", {"outcome": "late"}),
    ("attempt", {"q": "ID"}),
    ("attempt", {"p": str(CAP // 50)}),
    *(("lease", {"state": state}) for state in ("expired", "expiring", "silent", "live")),
    ("deliveryintent", {}),
    *(("deliveryintent", {"stuck": word}) for word in ("yes", "overdue", "failing", "unclaimed", "unserved")),
    ("deliveryintent", {"queue": "QUEUE"}),
    ("queue", {}),
    ("workersession", {}),
    ("program", {"workers": "no"}),
    ("publisher", {"state": "live"}),
    ("quarantinedmessage", {"reason": "foreign", "q": "m-1"}),
    ("operatoraction", {}),
    ("apitoken", {"state": "active", "role": "work"}),
]


#: What is asked of all rows that match: of so many at most.
ACROSS: list[tuple[str, str, dict[str, str]]] = [
    *(("task", "cancel", {"state": state}) for state in ("queued", "active", "succeeded", "failed", "cancelled")),
    *(("task", "requeue", {"state": state, "queue": "QUEUE"}) for state in ("queued", "failed", "cancelled")),
    *(("task", "requeue", {"q": q}) for q in ("key-7", "queue:default", "queue:rare", "program:tests.work")),
    ("task", "requeue", {}),
    ("task", "requeue", {"queue": "QUEUE"}),
    ("deliveryintent", "set_priority", {}),
    ("deliveryintent", "move", {"queue": "QUEUE"}),
    ("deliveryintent", "republish", {"stuck": "yes"}),
    ("lease", "force_expire", {"state": "expired"}),
]
#: The ids are looked up, filtered and put in order, and each task is looked at.
ACROSS_MAX = 4 * (ROWS_MAX + 1)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


def rows_read(plan: dict[str, Any]) -> int:
    """Count the rows that a plan took from large tables."""
    return sum(
        round((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])
        for node in nodes(plan)
        if node.get("Relation Name") in LARGE
    )


def worded(query: dict[str, str], words: dict[str, str]) -> dict[str, str]:
    return {name: words.get(value, value) for name, value in query.items()}


@pytest.fixture
def unattended(transactional_db: None) -> Iterator[None]:
    """Keep the server from gathering statistics in the middle of a test, when it sees half of the rows.

    The files are new: rows that fill the space of deleted ones lie in no order, and then the half of a table that an
    action on all may need is read by a scan with good reason.
    """
    execute("truncate ledgence_task cascade")
    for table in LARGE:
        execute(f"alter table {table} set (autovacuum_enabled = off)")
    yield
    for table in LARGE:
        execute(f"alter table {table} reset (autovacuum_enabled)")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("known", [TASKS, TASKS // 4], ids=["as the server knows it", "grown since the server looked"])
def test_no_list_scans_a_large_table(known: int, unattended: None, ledger: Ledger, op: Client) -> None:
    execute(FILL, {"first": 1, "last": known, "like": ledger.queued})
    execute("vacuum analyze")
    execute(FILL, {"first": known + 1, "last": TASKS, "like": ledger.queued})
    rare = Queue.objects.create(tenant="t", namespace="n", name="rare")
    words = {"QUEUE": str(ledger.queue.pk), "RARE": str(rare.pk), "ID": str(ledger.failed)}
    bad: list[str] = []
    pages = [(page_of(model, **worded(query, words)), READ_MAX) for model, query in LISTS]
    pages += [
        (page_of(model, action, across="1", **worded(query, words)), ACROSS_MAX) for model, action, query in ACROSS
    ]
    for address, most in pages:
        with CaptureQueriesContext(connection) as captured:
            assert op.get(address).status_code in (200, 302), address
        for statement in [q["sql"] for q in captured if q["sql"].lstrip().lower().startswith(("select", "with"))]:
            [(answer,)] = execute("explain (analyze, timing off, format json) " + statement.replace("%", "%%"), [])
            plan = (answer if isinstance(answer, list) else json.loads(answer))[0]["Plan"]
            scans = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"} & LARGE
            if scans or rows_read(plan) > most:
                bad.append(f"{address}: scans {scans}, reads {rows_read(plan)} rows: {statement[:2000]}")
    assert bad == []
