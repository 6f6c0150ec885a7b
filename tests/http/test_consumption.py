"""Consumption through a broker once more, with a worker that reaches the ledger over HTTP: the same tests."""

from collections.abc import Callable, Iterator

import pytest

from ledgence.tokens import Role, issue
from ledgence_worker.http_service import HttpTaskService
from ledgence_worker.task_service import TaskService
from tests.faults.waiting import wait_until
from tests.http.servers import Server
from tests.ledger import test_consumption
from tests.ledger.actors import USING
from tests.ledger.consuming import Consumption
from tests.worker.routed import QUEUE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

globals().update({name: value for name, value in vars(test_consumption).items() if name.startswith("test_")})

scene = test_consumption.scene


def issue_token(*queues: str) -> str:
    _, token = issue(name="t", roles=[Role.WORK], tenant="default", namespace="default", queues=queues, using=USING)
    return token


@pytest.fixture
def make_service(server: Server, transactional_db: None) -> Iterator[Callable[[], TaskService]]:
    yield lambda: HttpTaskService(server.url, issue_token())


def test_a_token_for_other_queues_leaves_the_messages_alone(
    server: Server, transactional_db: None, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker is told at its start; nothing is claimed, recorded or removed."""
    scene = Consumption(lambda: HttpTaskService(server.url, issue_token("near")))
    scene.submit(1)

    def play() -> None:
        scene.await_calls("quarantine", 1)
        wait_until(lambda: "messages not recorded" in caplog.text, "the refusal")

    with scene.publishing():
        scene.await_messages(1)
        assert scene.run(play, queues=()) == 0
    assert "queue has no active route that this session may use" in caplog.text
    assert scene.left == 1
    assert scene.pool.started == []


def test_a_token_for_external_queues_alone_needs_no_queue_to_be_named(server: Server, transactional_db: None) -> None:
    scene = Consumption(lambda: HttpTaskService(server.url, issue_token(QUEUE)))
    tasks = scene.submit(10)
    with scene.publishing():
        assert scene.run(lambda: scene.await_end(*tasks), queues=()) == 0
    scene.assert_each_ran_once(*tasks)
    assert "acquire" in scene.service.calls
