"""docs/python-client.md: its programs run as they stand there, and its tables say what the code says."""

import ast
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from django.db import connections

from ledgence_worker import limits
from ledgence_worker.client import Client
from ledgence_worker.client.commands import TaskFilter, TaskOptions
from ledgence_worker.protocol import CatalogueEntry
from tests.docs.reading import DOCS, blocks, table
from tests.http.servers import Server
from tests.ledger.actors import Worker

PAGE = DOCS / "python-client.md"
CATALOGUE = (CatalogueEntry(name="shop.total", version="1", entry_point="shop.programs:total"),)


@pytest.fixture
def worked(transactional_db: None) -> Iterator[None]:
    """Somebody runs whatever is submitted, as the page's reader has it."""
    is_over = threading.Event()

    def work() -> None:
        worker = Worker(catalogue=CATALOGUE)
        while not is_over.wait(0.02):
            for assignment in worker.acquire(10):
                worker.settle(assignment, result='{"total":3}')
        connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    yield
    is_over.set()
    thread.join()


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
def test_the_programs_run(worked: None, server: Server, token: str, tmp_path: Path) -> None:
    programs = [block.text for block in blocks(PAGE) if block.language == "python"]
    told = [run(program, tmp_path, LEDGENCE_URL=server.url, LEDGENCE_TOKEN=token) for program in programs]
    first, second = told
    assert first[0] in ("queued", "active", "succeeded")
    assert first[1:] == ["{'total': 3}", "1 succeeded"]
    assert second[0] == "[{'total': 3}, {'total': 3}]"
    assert [line.partition(" ")[2] for line in second[1:]] in (
        ["order-19", "order-18", "order-17"],
        ["order-18", "order-19", "order-17"],
    )


def run(program: str, folder: Path, **variables: str) -> list[str]:
    (folder / "program.py").write_text(program)
    ran = subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_every_method_stands_there_with_its_arguments() -> None:
    told = {row["Method"].partition("(")[0]: row for row in table(PAGE, "Method")}
    methods = {name: one for name, one in vars(Client).items() if inspect.isfunction(one) and not name.startswith("_")}
    assert told.keys() == methods.keys() - {"close"}
    for name, row in told.items():
        parameters = set(inspect.signature(methods[name]).parameters) - {"self", "options", "only"}
        assert parameters == set(row["Method"].partition("(")[2].rstrip(")").split(", ")) - {"*", "...", ""}, name
    for name, words in (("submit", TaskOptions), ("list", TaskFilter)):
        assert all(f"`{word}`" in PAGE.read_text() for word in get_type_hints(words)), name


def test_every_argument_of_a_client_stands_there_with_its_default() -> None:
    told: dict[str, Any] = {row["Argument of a client"]: row["Default"] for row in table(PAGE, "Argument of a client")}
    parameters = inspect.signature(Client).parameters
    assert told.keys() == parameters.keys()
    for name, default in told.items():
        expected = inspect.Parameter.empty if default == "required" else ast.literal_eval(default)
        assert parameters[name].default == expected, name


def test_the_size_of_a_request_is_told() -> None:
    assert f"at most {limits.SUBMIT_BYTES // 1024**2} MiB" in PAGE.read_text()
