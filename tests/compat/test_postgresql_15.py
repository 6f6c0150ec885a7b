"""The oldest supported PostgreSQL, as Debian 12 packages it."""

from pathlib import Path

import psycopg
import pytest

from tests.compat.suite import PAGES, SUITE, run_suite
from tests.servers import own_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAMS = Path("/usr/lib/postgresql/15/bin")


def test_the_suite_passes_on_debians_postgresql_15(tmp_path: Path) -> None:
    missing = f"{PROGRAMS} is missing: install Debian's package postgresql-15, as .ci/run does."
    assert (PROGRAMS / "postgres").exists(), missing
    with own_server(tmp_path, PROGRAMS) as server:
        with psycopg.connect(server.url("postgres")) as connection:
            assert connection.info.server_version // 10_000 == 15
        run_suite([*PAGES, *SUITE], database_url=server.url("ledgence"))
        # Its planner chooses differently. By itself: it needs no other test's database.
        run_suite(["tests/scale/test_plans.py"], database_url=server.url("ledgence"))
