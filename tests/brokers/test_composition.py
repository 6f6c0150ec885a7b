"""docker-compose.yml: what it starts beside a broker delivers its queue."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgence.tokens import Role, issue
from ledgence_project.elasticmq import ElasticMQ
from tests.project.composition import Services
from tests.project.test_composition import ask


@pytest.fixture
def services(database_url: str, tmp_path: Path, elasticmq: ElasticMQ) -> Iterator[Services]:
    made = Services(database_url, tmp_path, hosts={"http://elasticmq:9324": elasticmq.url})
    url = elasticmq.create_queue("ledgence")
    yield made
    made.kill()
    elasticmq.delete_queue(url)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.broker
def test_publisher_and_worker_deliver_a_task_and_stop(services: Services) -> None:
    services.run("migrate")
    for name in ("publisher", "external-worker", "web"):
        services.start(name)
    _, token = issue(name="tests", roles=[Role.SUBMIT], tenant="default", namespace="default", using="default")
    task = ask(f"{services.web}/ledgence/v1/tasks", token, {"program": "noop", "version": "1", "queue": "external"})
    result = ask(f"{services.web}/ledgence/v1/tasks/{task['id']}/result?wait_seconds=20", token)
    assert result == {"id": task["id"], "state": "succeeded", "result": None}
    assert [services.stop(name) for name in ("external-worker", "publisher", "web")] == [0, 0, 0]
