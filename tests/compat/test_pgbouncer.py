"""PgBouncer in transaction mode: everything works, only hints do not arrive, so work is found by polling."""

from pathlib import Path

import pytest

from tests.compat.pooler import pooler
from tests.compat.suite import SUITE, run_suite
from tests.servers import own_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


#: What is about one session of one client, which a pooler in this mode does not give.
ABOUT_SESSIONS = (
    "tests/ledger/races",
    "tests/ledger/test_hints.py",
    "tests/ledger/test_watch.py::test_a_snapshot_that_is_old_is_named",
    "tests/ledger/test_service.py::test_a_database_that_is_away_is_unavailable_and_the_next_call_connects_anew",
    "tests/ledger/test_service.py::test_the_statements_of_a_command_travel_together",
    "tests/ledger/explanation/test_finding.py::test_work_without_a_worker_and_with_one",
    "tests/ledger/explanation/test_finding.py::test_a_requeued_task",
    "tests/ledger/operations/test_drain.py::test_a_hint_ends_the_wait_for_work",
    "tests/ledger/publishing/test_process.py::test_a_failure_of_its_own_ends_its_publishers",
    "tests/ledger/publishing/test_process.py::test_every_route_is_published_and_hints_reach_the_queue_that_they_name",
)


def test_the_suite_passes_through_pgbouncer(tmp_path: Path) -> None:
    with own_server(tmp_path) as server, pooler(server, size=40) as port:
        # The pooler keeps connections to the test database, which therefore cannot be dropped; the server will be.
        arguments = [*SUITE, "--reuse-db", *(f"--deselect={name}" for name in ABOUT_SESSIONS)]
        run_suite(arguments, database_url=server.url("ledgence", port), settings="tests.compat.pooled")
