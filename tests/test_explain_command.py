"""manage.py ledgence_explain: the explanation for people and for programs."""

import json
from uuid import uuid4

import pytest
from django.core.management import CommandError

from ledgence.explanation import explain
from ledgence.management.operating import OperatingCode
from ledgence.models import Queue
from ledgence.operations.queues import pause
from tests.ledger.actors import USING, Worker, operator, submit_task
from tests.terminal import Terminal

pytestmark = pytest.mark.django_db


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal("ledgence_explain", capsys)


def test_the_text_numbers_the_lines_marks_what_blocks_and_says_what_to_do(command: Terminal) -> None:
    task = submit_task()
    pause([Queue.objects.get().pk], operator("mail server moves"), using=USING)
    lines = command(str(task)).splitlines()
    assert lines[0] == f"Task {task}: queued, revision 0."
    assert lines[1].startswith(" 1.! Queue default is paused: by op ")
    assert "     -> Ask them, or resume the queue when the reason is gone." in lines
    assert f"     (paused: queue {Queue.objects.get().pk})" in lines
    assert "     (no_session: session list)" in lines
    assert max(map(len, lines)) <= 100


def test_what_only_informs_is_not_marked(command: Terminal) -> None:
    Worker().acquire()
    task = submit_task()
    assert " 1.  It is due for" in command(str(task))


def test_the_json_is_the_explanation(command: Terminal) -> None:
    task = submit_task()
    told = json.loads(command(str(task), "--format", "json"))
    [line] = told.pop("lines")
    assert told == {"task_id": str(task), "revision": 0, "state": "queued"}
    [known] = explain(task, using=USING).lines
    assert line == {
        "code": "no_session",
        "is_blocking": True,
        "text": known.text,
        "advice": known.advice,
        "target": {"kind": "session", "id": None, "label": "worker sessions"},
    }


def test_hostile_text_does_nothing_to_a_terminal(command: Terminal) -> None:
    task = submit_task()
    pause([Queue.objects.get().pk], operator("\x1b[2Jgone\u202e"), using=USING)
    assert "\\u001b[2Jgone\\u202e" in command(str(task))


def test_an_unknown_task_and_no_id_are_refused(command: Terminal) -> None:
    with pytest.raises(CommandError, match="does not exist") as caught:
        command(str(uuid4()))
    assert caught.value.returncode == OperatingCode.REFUSED
    with pytest.raises(CommandError, match="'7' is no task's id"):
        command("7")
