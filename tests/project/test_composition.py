"""docker-compose.yml: it is valid, and its services run and stop as they stand there."""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ledgence.tokens import Role, issue
from ledgence_worker.delivery.config import read_routes
from ledgence_worker.delivery.sqs.options import SqsOptions
from tests.project.composition import FILE, OVERRIDE, Services, read


def test_it_and_its_override_are_valid_by_the_compose_specification() -> None:
    # The schema comes with the program, under the Apache License 2.0.
    files = [str(FILE), str(OVERRIDE)]
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", *files]
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
    assert staying == {"postgres", "web", "worker", "housekeeping", "elasticmq", "publisher", "external-worker"}
    assert [name for name in staying if "healthcheck" not in services[name]] == []


def test_the_override_takes_the_named_queue_of_sqs(tmp_path: Path) -> None:
    """It changes services that exist, and its route reads once the variables are set."""
    changed = yaml.safe_load(OVERRIDE.read_text())
    assert set(changed["services"]) < set(read()["services"])
    values = {"SQS_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/q", "AWS_REGION": "eu-west-1"}
    text = re.sub(r"\$\{(\w+):\?[^}]*\}", lambda match: values[match[1]], changed["configs"]["delivery"]["content"])
    file = tmp_path / "delivery.toml"
    file.write_text(text)
    [route] = read_routes(str(file))
    assert route.queue == "external"
    assert route.options == SqsOptions(queue_url=values["SQS_QUEUE_URL"], region=values["AWS_REGION"])


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
