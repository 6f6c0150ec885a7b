"""The admin's pages on a ledger of a million tasks: every statement finds its rows by an index, every page is quick."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledgence.admin.filters import QueueFilter, WordFilter
from ledgence.admin.paging import CAP
from ledgence.models import Queue
from tests.admin.conftest import OPERATIONS, VIEWED, make_client
from tests.admin.test_actions import ROUTES
from tests.admin.test_overview import FRAGMENT, INDEX
from tests.admin.test_pages import page_of
from tests.ledger.actors import Worker, execute
from tests.scale.filling_pages import fill_ledger, some_task

pytestmark = [pytest.mark.scale, pytest.mark.slow, pytest.mark.timeout(1200)]

#: Tables that grow with work or with time. The others have few rows, and the counts are pruned: they may be read whole.
LARGE = {
    "ledgence_task",
    "ledgence_attempt",
    "ledgence_deliveryintent",
    "ledgence_deliveryevent",
    "ledgence_operatoraction",
    "ledgence_operatoractiontarget",
    "ledgence_quarantinedmessage",
}
STATEMENTS_MAX = 12
#: The ids of a capped list, of each of four causes, and its rows, and what is passed over on the way.
ROWS_MAX = 8 * CAP
#: What a page may take, in seconds of a core's time; where others are busy each takes longer.
LIST_SECONDS, OVERVIEW_SECONDS, BUSY = 0.150, 0.250, 2
RUNS = 5


@pytest.fixture(scope="module")
def addresses(own_database: None) -> dict[str, str]:
    """Every address of the admin of a full ledger, by what it is."""
    worker = Worker()
    fill_ledger(worker)
    return dict(all_addresses(worker))


@pytest.fixture(scope="module")
def client(addresses: dict[str, str]) -> Client:
    return make_client(*(f"view_{model}" for model in VIEWED), *OPERATIONS)


#: What is searched for in each list: something that is there, and something that is not.
SEARCHES = {
    "task": ["{failed}", "program:tests.work", "queue:default", "queue:queue-7", "program:none", "no such key"],
    "attempt": ["{failed}", "{nobody}"],
    "lease": ["{leased}", "{session}"],
    "deliveryintent": ["{queued}", "{nobody}"],
    "workersession": ["tests", "nobody"],
    "queue": ["default", "none"],
    "program": ["tests.work"],
    "publisher": ["mill"],
    "quarantinedmessage": ["message-77", "none"],
    "operatoraction": ["{failed}", "{nobody}", "op"],
    "apitoken": ["none"],
}


def all_addresses(worker: Worker) -> Iterator[tuple[str, str]]:
    [(leased,)] = execute("select task_id from ledgence_lease order by task_id limit 1")
    [(queued,)] = execute("select task_id from ledgence_deliveryintent order by task_id limit 1")
    ids = {
        "failed": some_task("failed"),
        "succeeded": some_task("succeeded"),
        "leased": leased,
        "queued": queued,
        "session": worker.session_id,
        "nobody": "00000000-0000-7000-8000-000000000000",
    }
    queue = str(Queue.objects.get(name="default").pk)
    yield "overview", INDEX
    yield "overview of a day", f"{INDEX}?window=24h"
    yield "fragment", FRAGMENT
    for model in VIEWED:
        yield f"{model} list", page_of(model)
        yield f"{model} last page", page_of(model, p=str(CAP // 50))
        for term in SEARCHES[model]:
            yield f"{model} search {term}", page_of(model, q=term.format(**ids))
        for name, value in filter_values(model, queue):
            yield f"{model} {name}={value}", page_of(model, **{name: value})
    for state in ("queued", "active", "succeeded", "failed", "cancelled"):
        yield f"task {state} in a queue", page_of("task", state=state, queue=queue)
        yield f"task {state} of a program", page_of("task", state=state, q="program:tests.work")
    yield from pages(ids, queue)


def filter_values(model: str, queue: str) -> Iterator[tuple[str, str]]:
    [page] = [page for one, page in admin.site._registry.items() if one._meta.model_name == model]
    for entry in page.list_filter:
        # Any: filters are classes of admin's or ours.
        kind: Any = entry
        if issubclass(kind, WordFilter):
            yield from ((kind.parameter_name, word) for word in kind.words)
        elif issubclass(kind, QueueFilter):
            yield kind.parameter_name, queue
        else:
            raise AssertionError(f"the filter {kind} of {model} is not known here")


def pages(ids: dict[str, Any], queue: str) -> Iterator[tuple[str, str]]:
    for state in ("failed", "succeeded", "leased", "queued"):
        yield f"task page {state}", page_of("task", "change", ids[state])
    for model, key in (("lease", "leased"), ("deliveryintent", "queued"), ("workersession", "session")):
        yield f"{model} page", page_of(model, "change", ids[key])
    yield "queue page", page_of("queue", "change", queue)
    for table in ("attempt", "program", "operatoraction", "quarantinedmessage"):
        [(pk,)] = execute(f"select id from ledgence_{table} limit 1")  # noqa: S608 - the names above
        yield f"{table} page", page_of(table, "change", pk)
    targets = {"queue": queue, "workersession": ids["session"], "lease": ids["leased"], "deliveryintent": ids["queued"]}
    for model, action in ROUTES:
        if model in ("task", *targets):
            target = targets.get(model, ids["failed"])
            yield f"{model} {action}", page_of(model, action, ids=str(target))


def statements_of(client: Client, address: str) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        response = client.get(address)
    # A list that has no such page leads back to itself.
    assert response.status_code in (200, 302), (address, response.status_code)
    return [query["sql"] for query in captured]


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


def faults_of(statement: str) -> Iterator[str]:
    [(answer,)] = execute("explain (analyze, timing off, format json) " + statement.replace("%", "%%"), [])
    plan = (answer if isinstance(answer, list) else json.loads(answer))[0]["Plan"]
    scanned = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"} & LARGE
    if scanned:
        yield f"reads {', '.join(sorted(scanned))} from end to end"
    if (read := rows_read(plan)) > ROWS_MAX:
        yield f"reads {read} rows"


def test_no_page_reads_a_large_table_and_none_sends_many_statements(addresses: dict[str, str], client: Client) -> None:
    bad: list[str] = []
    for name, address in addresses.items():
        statements = statements_of(client, address)
        if len(statements) > STATEMENTS_MAX:
            bad.append(f"{name}: {len(statements)} statements")
        for statement in statements:
            if re.match(r"\s*(select|with)\b", statement, re.IGNORECASE):
                bad += [f"{name}: {fault}: {statement[:1500]}" for fault in faults_of(statement)]
    assert not bad, "\n".join(bad)


def test_every_page_is_quick(addresses: dict[str, str], client: Client, record_property) -> None:
    slow: list[str] = []
    taken: dict[str, float] = {}
    for name, address in addresses.items():
        # The first time templates are compiled, and pages of tables come into memory.
        client.get(address)
        taken[name] = _seconds(client, address)
        if taken[name] > BUSY * (OVERVIEW_SECONDS if name.startswith("overview") else LIST_SECONDS):
            slow.append(f"{name}: {taken[name] * 1000:.0f} ms")
    for name in sorted(taken, key=lambda name: -taken[name]):
        record_property(name, f"{taken[name] * 1000:.0f} ms")
    assert not slow, "\n".join(slow)


def _seconds(client: Client, address: str) -> float:
    """Return what the cores spend on a page, in this process and in the server's: others may use them as well."""
    before = _spent()
    for _ in range(RUNS):
        client.get(address)
    return (_spent() - before) / RUNS


def _spent() -> float:
    [(pid,)] = execute("select pg_backend_pid()")
    times = psutil.Process(pid).cpu_times()
    return time.process_time() + times.user + times.system
