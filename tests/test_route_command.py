"""manage.py ledgence_route: how queues hand out their work, and the way back to the task service."""

import json
import os
import pwd
from uuid import uuid4

import pytest
from django.core.management import CommandError

from ledgence.management.operating import OperatingCode
from ledgence.models import OperatorAction, Queue
from ledgence.operations.publishers import record_publisher
from tests.ledger.actors import USING, Worker, assert_audit_clean, execute, submit_task
from tests.ledger.publishers import PublisherActor, route
from tests.terminal import Terminal

pytestmark = pytest.mark.django_db


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal("ledgence_route", capsys)


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


def test_queues_are_listed_with_mode_destination_and_live_publishers(command: Terminal) -> None:
    submit_task(queue="plain")
    live, silent = uuid4(), uuid4()
    for publisher in (live, silent):
        record_publisher(publisher, route("a", "there"), answered_seconds_ago=None, failure="", using=USING)
    execute("update ledgence_publisher set turned_at = now() - interval '61 s' where id = %s", [silent])
    route("b", "elsewhere")
    assert rows(command())[1:] == [
        ["default", "default", "a", "external", "1", "there"],
        ["default", "default", "b", "external", "0", "elsewhere"],
        ["default", "default", "plain", "integrated", "-", "-"],
    ]


def test_the_list_is_there_for_programs(command: Terminal) -> None:
    route("a", "there")
    assert json.loads(command("--format", "json")) == [
        {
            "tenant": "default",
            "namespace": "default",
            "queue": "a",
            "mode": "external",
            "live_publishers": 0,
            "destination": "there",
        }
    ]


def test_a_queue_is_given_back_with_its_work(command: Terminal) -> None:
    queue = route()
    task = submit_task()
    PublisherActor(queue).publish()
    out = command("default", "--integrated", "--reason", "the broker is too dear")
    assert "It was routed to there; take the route out of the delivery configuration" in out
    found = Queue.objects.get()
    assert (found.mode, found.destination) == ("integrated", None)
    assert [a.task_id for a in Worker().acquire(2)] == [task]
    action = OperatorAction.objects.order_by("acted_at").last()
    assert action is not None
    assert (action.kind, action.reason) == ("route", "the broker is too dear")
    assert action.actor_name == pwd.getpwuid(os.geteuid()).pw_name
    assert_audit_clean()


def test_one_that_is_integrated_stays_so(command: Terminal) -> None:
    submit_task()
    assert "is integrated already" in command("default", "--integrated", "--reason", "again")


def test_the_scope_is_taken_from_the_options(command: Terminal) -> None:
    Queue.objects.create(tenant="t", namespace="n", name="q", mode="external", destination="there")
    with pytest.raises(CommandError, match="There is no queue default/default/q") as caught:
        command("q", "--integrated", "--reason", "wrong scope")
    assert caught.value.returncode == OperatingCode.REFUSED
    command("q", "--integrated", "--reason", "right scope", "--tenant", "t", "--namespace", "n")
    assert Queue.objects.get().mode == "integrated"


@pytest.mark.parametrize("reason", ["why", "x" * 1001], ids=["short", "long"])
def test_a_reason_is_as_long_as_on_the_pages(command: Terminal, reason: str) -> None:
    route()
    with pytest.raises(CommandError, match="A reason has 5 to 1,000 characters"):
        command("default", "--integrated", "--reason", reason)
    assert Queue.objects.get().mode == "external"


@pytest.mark.parametrize(
    "arguments",
    [("default",), ("default", "--integrated"), ("--integrated",), ("default", "--reason", "why")],
    ids=" ".join,
)
def test_half_a_command_changes_nothing(command: Terminal, arguments: tuple[str, ...]) -> None:
    route()
    with pytest.raises(CommandError, match="--integrated --reason TEXT") as caught:
        command(*arguments)
    assert caught.value.returncode == OperatingCode.USAGE
    assert Queue.objects.get().mode == "external"
