"""docs/operations.md and docs/bench.md say what the code does: exit codes, connections, statements, figures."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class
from django.db import connection

import ledgence
from ledgence.admin.overview import find_overview
from ledgence.explanation import Code
from ledgence.explanation.facts import UNTAKEN_AFTER
from ledgence.management.acting import ActingCommand
from ledgence.management.operating import OperatingCode
from ledgence.operations.actions import REASON_LENGTHS, TYPED_ABOVE
from ledgence.status import COUNT_CAP
from ledgence_project.demo.benchmark import Figures
from ledgence_project.demo.remote import RemoteFigures
from ledgence_project.embedded.environment import CHECKOUT
from ledgence_worker.stopping import CLOSING_SECONDS, ExitCode
from tests.docs.reading import DOCS, blocks, table
from tests.faults.waiting import wait_until

PAGE = DOCS / "operations.md"
BENCH = DOCS / "bench.md"
STATEMENTS = [block for block in blocks(PAGE) if block.language == "sql"]


def test_every_exit_code_stands_there() -> None:
    assert {row["Name"]: int(row["Exit code"]) for row in table(PAGE, "Exit code")} == ExitCode.__members__


def test_every_exit_code_of_an_operators_command_stands_there() -> None:
    rows = table(PAGE, "Exit code of these")
    assert {row["Name"]: int(row["Exit code of these"]) for row in rows} == OperatingCode.__members__
    low, high = REASON_LENGTHS
    assert f"in {low} to {high:,} characters; above {TYPED_ABOVE} rows" in PAGE.read_text()


def test_every_command_that_acts_stands_there() -> None:
    acting = [name for name in get_commands() if name.startswith("ledgence_") and is_acting(name)]
    assert sorted(row["Command"] for row in table(PAGE, "Command")) == sorted(acting)


def is_acting(name: str) -> bool:
    command = load_command_class(get_commands()[name], name)
    return isinstance(command, ActingCommand)


def test_the_time_after_the_grace_is_right() -> None:
    assert f"up to\n{CLOSING_SECONDS:.0f} s for that after the grace" in PAGE.read_text()


@pytest.mark.django_db
@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda block: f"line {block.line}")
def test_every_statement_runs(statement) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement.text)


def test_every_log_line_is_one_of_the_code() -> None:
    sources = [*(CHECKOUT / "ledgence").rglob("*.py"), *(CHECKOUT / "workers").rglob("*.py")]
    code = "\n".join(path.read_text() for path in sources)
    lines = re.findall(r"^\| `([^`]+)`", PAGE.read_text().partition("| You see |")[2], re.MULTILINE)
    assert len(lines) > 3
    assert [line for line in lines if line not in code] == []


def test_every_reason_of_a_health_page_is_one_of_the_code_and_none_is_left_out() -> None:
    sources = (
        "workers/ledgence_worker/health.py",
        "ledgence/housekeeping.py",
        "ledgence/http/health.py",
        "ledgence/publishing/publisher.py",
        "ledgence/publishing/process.py",
    )
    code = "\n".join((CHECKOUT / source).read_text() for source in sources)
    # A reason stands alone in a list, or is added to one.
    reasons = re.findall(r'(?:\[f?|append\(f?|problems, |^ +f)"([a-z][^"]+)"', code, re.MULTILINE)
    told = [row["Reason begins with"] for row in table(PAGE, "Page of")]
    assert [reason for reason in reasons if not reason.startswith(tuple(told))] == []
    assert [one for one in told if not any(reason.startswith(one) for reason in reasons)] == []


def test_every_code_of_an_explanation_stands_there_once() -> None:
    told = [code for row in table(PAGE, "Code") for code in row["Code"].split(", ")]
    assert sorted(told) == sorted(Code)
    assert f"due for more than {UNTAKEN_AFTER.total_seconds():.0f} s" in PAGE.read_text()
    assert f"counted up to {COUNT_CAP:,}" in PAGE.read_text()


@pytest.mark.django_db
def test_every_card_of_the_overview_stands_there() -> None:
    told = [row["Card"] for row in table(PAGE, "Card")]
    # Nought of each, and so all of them in the plural.
    assert told == [card.label for card in find_overview().cards]


def test_every_figure_of_the_benchmark_stands_there() -> None:
    assert [row["Figure"] for row in table(BENCH, "Figure")] == [field.name for field in fields(Figures)]
    assert [row["Under `http`"] for row in table(BENCH, "Under `http`")] == [f.name for f in fields(RemoteFigures)]


def test_the_benchmarks_options_stand_there() -> None:
    parser = load_command_class("ledgence_project.demo", "ledgence_bench").create_parser("manage.py", "ledgence_bench")
    own = {"--tasks", "--slots", "--grown", "--idle", "--http", "--sqs", "--json"}
    assert own == set(re.findall(r"\[(--\w+)", BENCH.read_text()))
    assert own <= {option for action in parser._actions for option in action.option_strings}


@pytest.fixture
def worker(database_url: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker with a short lease, so that it renews soon."""
    variables = os.environ | {"DATABASE_URL": database_url, "LEDGENCE_LEASE_SECONDS": "3"}
    command = [sys.executable, str(CHECKOUT / "manage.py"), "ledgence_worker", "--queue", "bench", "--concurrency", "2"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
    yield process
    process.terminate()
    assert process.wait(60) == ExitCode.CLEAN


@pytest.mark.process
def test_a_worker_has_the_connections_that_are_told_and_no_more(worker: subprocess.Popen[bytes]) -> None:
    told = sorted(row["Connection"] for row in table(PAGE, "Connection"))
    tasks = [ledgence.submit("hold", {"seconds": seconds}, version="1", queue="bench") for seconds in (0, 1.5)]
    for task in tasks:
        task.wait(60)
    wait_until(lambda: len(connections()) >= len(told), f"as many connections as {told}")
    assert connections() == told


def connections() -> list[str]:
    """Return the names of all connections to this database but the test's own."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT application_name FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY 1"
        )
        return [name for (name,) in cursor.fetchall()]
