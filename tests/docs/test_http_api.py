"""docs/http-api.md says what the service does: its commands run against a server, its tables are the code's."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ledgence.http import body, lanes, parking, views
from ledgence.http import limits as http_limits
from ledgence.http.call import DEPTH, QUERY_BYTES
from ledgence.http.endpoint import Reply
from ledgence.http.openapi import describe
from ledgence.http.replies import Refused, explain, finish
from ledgence.http.routing import read_head
from ledgence.http.table import ENDPOINTS
from ledgence_worker import limits
from ledgence_worker.bodies import NewTaskBody, TaskStatus
from ledgence_worker.claims import ClaimStatus
from ledgence_worker.errors import LedgenceError
from ledgence_worker.problems import PROBLEMS
from tests.docs.project import Project, environment, start_project
from tests.docs.reading import DOCS, Block, blocks, table
from tests.docs.serving import serve, stop
from tests.servers import free_port

PAGE = DOCS / "http-api.md"
#: Between the answers of the page's blocks in their common output.
SEPARATOR = "\x1e"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00")


def test_every_address_stands_there() -> None:
    told = [tuple(row.values())[:5] for row in table(PAGE, "Address")]
    assert told == [
        (
            f"{one.method} {one.path}",
            one.name,
            ", ".join(one.roles),
            one.body.__name__ if one.body else "",
            one.reply.__name__ if one.reply is not dict else "OpenAPI",
        )
        for one in (*ENDPOINTS, describe(ENDPOINTS))
    ]


@pytest.mark.parametrize("kind", [NewTaskBody, TaskStatus], ids=lambda kind: kind.__name__)
def test_every_member_stands_there(kind: Any) -> None:
    told = [name for row in table(PAGE, f"Member of {kind.__name__}") for name in next(iter(row.values())).split(", ")]
    assert sorted(told) == sorted(field.name for field in fields(kind))


def test_every_error_stands_there_with_its_statuses() -> None:
    told = {row["Code"]: tuple(map(int, row["Status"].split(", "))) for row in table(PAGE, "Code")}
    assert told == {problem.code: (problem.status, *problem.also) for problem in PROBLEMS}


def test_every_status_of_a_dispatch_stands_there() -> None:
    assert [row["Status of a dispatch"].strip("`") for row in table(PAGE, "Status of a dispatch")] == list(ClaimStatus)


def test_every_limit_of_a_request_is_the_codes() -> None:
    assert [ast.literal_eval(row["Value"]) for row in table(PAGE, "Limit of a request")] == [
        limits.SUBMIT_BYTES,
        limits.SETTLE_BYTES,
        limits.COMMAND_BYTES,
        body.BODY_SECONDS,
        QUERY_BYTES,
        DEPTH,
        http_limits.TASKS_MAX,
        http_limits.BATCH_MAX,
        http_limits.CAPACITY_MAX,
        limits.MESSAGES_MAX,
        limits.WAIT_SECONDS_MAX,
        views.WAIT_SECONDS_MAX,
        parking.WAITS_MAX,
        lanes.QUEUE_MAX,
        body.HELD_BYTES_MAX,
        http_limits.PAGE_MAX,
        http_limits.ATTEMPTS_PAGE,
    ]
    text = PAGE.read_text()
    assert f"looks at {http_limits.WINDOW:,} tasks" in text
    assert f"takes {parking.WAITS_MAX:,} of them" in text
    assert f"more than {body.SMALL_BYTES // 1024} KiB" in text


def test_every_filter_of_the_list_stands_there() -> None:
    [own] = [one for one in ENDPOINTS if one.name == "list_tasks"]
    section = PAGE.read_text().partition("## Lists")[2].partition("\n## ")[0]
    assert [name for name in own.query if f"`{name}`" not in section] == []


def told_of(error: LedgenceError) -> Reply:
    return explain(error, request_id="id", method="GET", path="tasks")


def test_every_header_of_a_reply_stands_there() -> None:
    errors: list[LedgenceError] = [problem.error("") for problem in PROBLEMS]
    for method, path, headers in (("PATCH", "tasks", {}), ("POST", "tasks", {"content-encoding": "gzip"})):
        with pytest.raises(Refused) as caught:
            read_head(method, path, "", headers)
        errors.append(caught.value)
    sent = {name for error in errors for name, _ in finish(told_of(error), "id").headers}
    told = {row["Header"] for row in table(PAGE, "Header")}
    # The first of these is every reply's; the others are set by the two ways to serve.
    assert sent - {"Content-Length"} | {"Connection", "Ledgence-Wait-Limit"} <= told


def shape(value: object) -> object:
    """Return a value with whatever differs from run to run replaced by what it is."""
    if isinstance(value, dict):
        return {name: shape(member) for name, member in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    if isinstance(value, float):
        return "a number"
    if isinstance(value, str):
        return "a UUID" if UUID.fullmatch(value) else "a time" if TIME.fullmatch(value) else value
    return value


def commands() -> list[tuple[Block, Block | None]]:
    """Return the page's blocks of commands, each with the reply that is told after it."""
    found: list[tuple[Block, Block | None]] = []
    for block in blocks(PAGE):
        if block.language == "sh" and ("curl" in block.text):
            found.append((block, None))
        elif block.language == "json":
            found[-1] = found[-1][0], block
    return found


@pytest.fixture
def site(tmp_path: Path, reader_database: dict[str, object]) -> Iterator[tuple[Path, dict[str, str]]]:
    """A reader's project that is served, and a worker beside it: its folder, and the environment of its commands."""
    project = start_project(tmp_path, "mysite", reader_database, "shop", "ledgence")
    for page in (DOCS / "deploy.md", PAGE):
        write_files(project, page, ("mysite/asgi.py", "mysite/urls.py", "shop/programs.py"))
    project.migrate()
    port = free_port()
    variables = environment() | {"API": f"http://127.0.0.1:{port}/ledgence/v1"}
    with serve(tmp_path, variables, f"127.0.0.1:{port}", "mysite.asgi"):
        worker = subprocess.Popen(
            [sys.executable, "manage.py", "ledgence_worker", "--concurrency", "1"], cwd=tmp_path, env=variables
        )
        try:
            yield tmp_path, variables
        finally:
            stop(worker)


def write_files(project: Project, page: Path, names: tuple[str, ...]) -> None:
    for block in blocks(page):
        if block.language == "python" and block.text.partition("\n")[0].endswith(names):
            project.write(block)


@pytest.mark.process
@pytest.mark.slow
def test_its_commands_run_and_answer_as_told(site: tuple[Path, dict[str, str]]) -> None:
    folder, variables = site
    told = commands()
    assert len(told) > 10
    script = "".join(f"{block.text}\nprintf '{SEPARATOR}'\n" for block, _ in told)
    ran = subprocess.run(
        ["sh", "-eu"], input=script, cwd=folder, env=variables, capture_output=True, text=True, timeout=100, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    answers = ran.stdout.split(SEPARATOR)
    for (block, reply), answer in zip(told, answers, strict=False):
        if reply is not None:
            assert shape(json.loads(answer)) == shape(json.loads(reply.text)), f"line {block.line}: {answer}"
    assert (folder / "ledgence.curl").stat().st_mode & 0o077 == 0
