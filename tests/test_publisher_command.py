"""The publisher as a command: what it refuses to start with, its exit codes, and what stands after each."""

import signal
import socket
from collections.abc import Sequence
from io import StringIO

import pytest
from django.core.checks import Error
from django.core.management import call_command, load_command_class
from django.core.management.base import CommandError, SystemCheckError

from ledgence.management.commands import ledgence_publisher
from ledgence.models import DeliveryIntent, OperatorAction, Publisher, Queue
from ledgence.testing.delivery.memory import MemoryBroker
from ledgence_worker.errors import InvalidInput
from ledgence_worker.stopping import ExitCode
from tests.ledger.actors import submit_task, submit_tasks
from tests.ledger.publishing.running import FakeRoute, sent_to

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker(address="there")


@pytest.fixture
def routes(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> list[FakeRoute]:
    """What the configuration holds."""
    found = [FakeRoute(broker)]
    monkeypatch.setattr(ledgence_publisher, "read_routes", lambda path: tuple(found))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return found


def publish_once() -> None:
    call_command("ledgence_publisher", delivery_config="delivery.toml", once=True, stdout=StringIO())


def refused(match: str) -> CommandError:
    with pytest.raises(CommandError, match=match) as caught:
        publish_once()
    return caught.value


def modes() -> dict[str, str]:
    return dict(Queue.objects.values_list("name", "mode"))


def test_what_is_due_is_published_and_the_queue_is_routed(routes: Sequence[FakeRoute], broker: MemoryBroker) -> None:
    publish_once()
    assert modes() == {"default": "external"}
    assert Queue.objects.get().destination == "there"
    tasks = submit_tasks(20)
    publish_once()
    assert sorted(sent_to(broker)) == tasks
    assert not Publisher.objects.exists()
    action = OperatorAction.objects.get()
    assert (action.kind, bool(action.actor_name)) == ("route", True)


def test_every_route_is_published(routes: list[FakeRoute]) -> None:
    other = MemoryBroker(address="elsewhere")
    routes.append(FakeRoute(other, queue="other", tenant="t", namespace="n"))
    publish_once()
    assert {(q.tenant, q.namespace, q.name, q.destination) for q in Queue.objects.all()} == {
        ("default", "default", "default", "there"),
        ("t", "n", "other", "elsewhere"),
    }


def test_what_is_not_confirmed_is_exit_code_1(routes: Sequence[FakeRoute], broker: MemoryBroker) -> None:
    publish_once()
    task = submit_task()
    broker.refuse(task)
    assert refused("Not all that is due was confirmed").returncode == 1
    assert DeliveryIntent.objects.get().refusals == 1


def test_a_broker_that_does_not_answer_is_exit_code_1_at_once(
    routes: Sequence[FakeRoute], broker: MemoryBroker
) -> None:
    broker.is_down = True
    assert refused("The broker of queue there is down").returncode == 1
    assert modes() == {}


def test_a_queue_that_cannot_be_used_is_exit_code_2_and_nothing_is_activated(routes: list[FakeRoute]) -> None:
    gone = MemoryBroker(address="gone")
    gone.is_missing = True
    routes.append(FakeRoute(gone, queue="other"))
    assert refused("The queue gone does not exist").returncode == ExitCode.CONFIGURATION
    assert modes() == {}


def test_a_queue_with_work_is_exit_code_2_and_nothing_is_activated(routes: list[FakeRoute]) -> None:
    submit_task(queue="other")
    routes.append(FakeRoute(MemoryBroker(address="elsewhere"), queue="other"))
    error = refused("Queue default/default/other still has queued tasks. Let workers empty it, then route it.")
    assert error.returncode == ExitCode.CONFIGURATION
    assert modes() == {"other": "integrated"}


def test_one_physical_queue_for_two_queues_is_exit_code_2(routes: list[FakeRoute], broker: MemoryBroker) -> None:
    routes.append(FakeRoute(broker, queue="other"))
    assert refused("Destination there has 2 routes").returncode == ExitCode.CONFIGURATION
    assert modes() == {}


def test_a_queue_with_two_routes_is_exit_code_2(routes: list[FakeRoute]) -> None:
    # The second one names what the first one leaves to the settings.
    routes.append(FakeRoute(MemoryBroker(address="elsewhere"), tenant="default"))
    assert refused("Queue default/default/default has two routes").returncode == ExitCode.CONFIGURATION
    assert modes() == {}


def test_a_configuration_that_cannot_be_read_is_exit_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise InvalidInput(f"{path}: line 7: surprise")

    monkeypatch.setattr(ledgence_publisher, "read_routes", refuse)
    assert refused("delivery.toml: line 7: surprise").returncode == ExitCode.CONFIGURATION


def test_warnings_of_a_broker_are_logged(
    routes: list[FakeRoute], caplog: pytest.LogCaptureFixture, broker: MemoryBroker
) -> None:
    broker.warnings = ("there is no dead-letter queue",)
    publish_once()
    assert "there is no dead-letter queue" in caplog.text


def test_checks_that_fail_are_exit_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "django.core.management.base.checks.run_checks", lambda **_: [Error("no PostgreSQL", id="ledgence.E003")]
    )
    with pytest.raises(SystemCheckError, match="no PostgreSQL") as caught:
        load_command_class("ledgence", "ledgence_publisher").check()
    assert caught.value.returncode == ExitCode.CONFIGURATION


@pytest.mark.parametrize(("port", "words"), [(-1, "--health-port must be a number"), (None, "cannot be used")])
def test_a_health_port_that_cannot_be_used_is_exit_code_2(
    routes: Sequence[FakeRoute], port: int | None, words: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(CommandError, match=words) as caught:
        number = taken.getsockname()[1] if port is None else port
        call_command("ledgence_publisher", delivery_config="delivery.toml", health_port=number)
    assert caught.value.returncode == ExitCode.CONFIGURATION
    assert modes() == {}
