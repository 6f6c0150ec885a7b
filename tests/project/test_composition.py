"""docker-compose.yml: it is valid, and its services run and stop as they stand there."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgence.tokens import Role, issue
from tests.project.composition import FILE, Services, read


def test_it_is_valid_by_the_compose_specification() -> None:
    # The schema comes with the program, under the Apache License 2.0.
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_what_is_not_valid_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "wrong.yml").write_text(FILE.read_text().replace("healthcheck:", "healthchek:"))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    ran = subprocess.run([*command, str(tmp_path / "wrong.yml")], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "healthchek" in ran.stdout


def test_every_service_that_stays_has_a_healthcheck_and_time_to_stop() -> None:
    services = read()["services"]
    staying = {name for name, service in services.items() if service.get("restart") != "no"}
    assert staying == {"postgres", "web", "worker", "housekeeping"}
    assert [name for name in staying if "healthcheck" not in services[name]] == []


@pytest.fixture
def services(database_url: str, tmp_path: Path) -> Iterator[Services]:
    made = Services(database_url, tmp_path)
    yield made
    made.kill()


@pytest.mark.process
@pytest.mark.slow
def test_its_services_run_a_task_and_stop(services: Services) -> None:
    services.run("migrate")
    # The task service is healthy once somebody has kept house.
    for name in ("housekeeping", "web", "worker"):
        services.start(name)
    _, token = issue(name="tests", roles=[Role.SUBMIT], tenant="default", namespace="default", using="default")
    task = ask(f"{services.web}/ledgence/v1/tasks", token, {"program": "noop", "version": "1", "queue": "bench"})
    result = ask(f"{services.web}/ledgence/v1/tasks/{task['id']}/result?wait_seconds=20", token)
    assert result == {"id": task["id"], "state": "succeeded", "result": None}
    assert {name: services.stop(name) for name in ("worker", "housekeeping", "web")} == {
        "worker": 0,
        "housekeeping": 0,
        "web": 0,
    }


def ask(url: str, token: str, body: object = None) -> dict[str, Any]:
    """Send a request with a token, with a body if there is one, and return the reply's."""
    content = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, content, headers), timeout=60) as reply:  # noqa: S310
        answer: dict[str, Any] = json.loads(reply.read())
    return answer
