"""The commands that act: the same operations, rules and records as on the pages, for people and for programs."""

import io
import json
import os
import pwd
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command

from ledgence.management.operating import OperatingCode
from ledgence.models import OperatorAction, Queue, Task
from ledgence.operations.actions import TYPED_ABOVE
from ledgence.operations.cancel import cancel
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import USING, Worker, attempts_of, state_of, submit_task, submit_tasks
from tests.ledger.rivals import Rival
from tests.terminal import Terminal

pytestmark = pytest.mark.django_db

AN_ID = "01980c1e-61aa-7f91-bfa5-f42e274312ad"
REASON = ("--reason", "the disk was full")


class Acting:
    """Calls the commands, and keeps what they wrote and how they ended."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.code = 0
        self.err = ""

    def __call__(self, command: str, *arguments: str) -> str:
        terminal = Terminal(f"ledgence_{command}", self._capsys)
        self.code = 0
        try:
            terminal(*arguments)
        except SystemExit as end:
            self.code = int(end.code or 0)
        except CommandError as error:
            self.code, self.err = error.returncode, str(error)
            return terminal.out
        self.err = terminal.err
        return terminal.out

    def told(self, command: str, *arguments: str) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self(command, *arguments, "--format", "json"))
        return value


@pytest.fixture
def act(capsys: pytest.CaptureFixture[str]) -> Acting:
    return Acting(capsys)


@pytest.fixture
def worker(db: None) -> Worker:
    return Worker()


@pytest.fixture
def failed(worker: Worker) -> UUID:
    task = submit_task()
    worker.settle(worker.acquire_one(), Outcome.FAILED)
    return task


def records() -> list[tuple[str, str, str, int]]:
    """Return kind, actor, reason and number of rows of each record, first to last."""
    rows = OperatorAction.objects.order_by("acted_at", "pk")
    return [(row.kind, row.actor_name, row.reason, row.targets.count()) for row in rows]


ME = pwd.getpwuid(os.geteuid()).pw_name


def test_requeue_makes_tasks_ready_and_tells_what_was_skipped_and_why(
    act: Acting, failed: UUID, worker: Worker
) -> None:
    queued, unknown = submit_task(), uuid4()
    out = act("requeue", str(failed), str(queued), str(unknown), *REASON)
    assert dict(line.split(maxsplit=1) for line in out.splitlines()) == {
        str(failed): "requeued",
        str(queued): "not terminal",
        str(unknown): "not found",
    }
    assert act.code == OperatingCode.SKIPPED
    [action] = OperatorAction.objects.all()
    assert f"Changed 1, skipped 2 (1 not terminal, 1 not found). Recorded as {action.pk}." in act.err
    assert (state_of(failed), records()) == ("queued", [("requeue", ME, "the disk was full", 3)])


def test_json_has_the_answers_the_counts_and_the_record(act: Acting, failed: UUID) -> None:
    told = act.told("requeue", str(failed), *REASON)
    [action] = OperatorAction.objects.all()
    assert told == {"action": str(action.pk), "changed": 1, "skipped": {}, "answers": {str(failed): "requeued"}}
    assert (act.code, act.err) == (OperatingCode.DONE, "")


def test_a_revision_that_was_seen_is_the_only_one_that_is_acted_on(act: Acting, failed: UUID) -> None:
    assert act.told("requeue", f"{failed}:0", *REASON)["answers"] == {str(failed): "moved_on"}
    assert act.told("requeue", f"{failed}:1", *REASON)["answers"] == {str(failed): "requeued"}
    assert [row.expected_revision for row in OperatorAction.objects.latest("acted_at").targets.all()] == [1]


def test_a_copy_is_a_new_task(act: Acting, worker: Worker) -> None:
    task = submit_task()
    worker.settle(worker.acquire_one())
    assert act.told("requeue", str(task), *REASON)["skipped"] == {"succeeded": 1}
    [copy] = act.told("requeue", str(task), "--as-copy", *REASON)["answers"].values()
    assert Task.objects.get(pk=copy).copy_of == task
    assert [kind for kind, *_ in records()] == ["requeue", "copy"]


def test_cancel_ends_queued_tasks_and_asks_active_ones_to_stop(act: Acting, worker: Worker) -> None:
    active, queued = submit_task(priority=1), submit_task()
    worker.acquire_one()
    assert act.told("cancel", str(active), str(queued), *REASON) == {
        "action": str(OperatorAction.objects.get().pk),
        "changed": 2,
        "skipped": {},
        "answers": {str(active): "requested", str(queued): "cancelled"},
    }
    assert act.told("cancel", str(queued), AN_ID, *REASON)["skipped"] == {"terminal": 1, "not_found": 1}
    assert act.code == OperatingCode.SKIPPED


def test_ids_come_from_the_standard_input_too_each_once(act: Acting, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = submit_tasks(3)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{tasks[0]}\n{tasks[1]}  {tasks[0]}\n"))
    assert list(act.told("cancel", str(tasks[2]), "-", str(tasks[2]), *REASON)["answers"]) == [
        str(task) for task in (tasks[2], tasks[0], tasks[1])
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    act("cancel", "-", *REASON)
    assert (act.code, act.err) == (OperatingCode.USAGE, "Nothing was named; nothing was changed.")


def test_a_task_is_named_once(act: Acting) -> None:
    task = submit_task()
    act("cancel", str(task), f"{task}:0", *REASON)
    assert (act.code, act.err) == (OperatingCode.USAGE, "A task is named twice, in two ways; nothing was changed.")
    assert act.told("cancel", str(task).upper(), *REASON)["answers"] == {str(task): "cancelled"}


def test_pause_and_resume_go_by_name_and_are_recorded(act: Acting) -> None:
    submit_task(queue="mail")
    submit_task(queue="reports")
    assert act("pause", "mail", "reports", *REASON).splitlines() == ["mail     paused", "reports  paused"]
    queue = Queue.objects.get(name="mail")
    assert (queue.paused_by, queue.pause_reason) == (ME, "the disk was full")
    assert act.told("pause", "mail", *REASON)["skipped"] == {"already": 1}
    assert act.told("resume", "mail", "reports", *REASON)["answers"] == {"mail": "resumed", "reports": "resumed"}
    assert not Queue.objects.exclude(paused_at=None).exists()
    assert [kind for kind, *_ in records()] == ["pause", "pause", "resume"]


def test_a_queue_of_another_scope_is_named_with_it(act: Acting) -> None:
    Queue.objects.create(tenant="acme", namespace="eu", name="mail")
    act("pause", "mail", *REASON)
    assert (act.code, act.err) == (
        OperatingCode.REFUSED,
        "There is no queue default/default/mail; nothing was changed.",
    )
    assert act("pause", "mail", "--tenant", "acme", "--namespace", "eu", *REASON) == "mail  paused\n"


def test_a_pause_may_have_an_end(act: Acting) -> None:
    submit_task(queue="mail")
    act("pause", "mail", "--until", "2999-01-02T03:04:05", *REASON)
    assert (act.code, "has no time zone" in act.err) == (OperatingCode.USAGE, True)
    act("pause", "mail", "--until", "2000-01-02T03:04:05Z", *REASON)
    assert (act.code, "is over" in act.err) == (OperatingCode.REFUSED, True)
    assert act("pause", "mail", "--until", "2999-01-02T03:04:05+01:00", *REASON) == "mail  paused\n"
    assert Queue.objects.get(name="mail").paused_until == datetime(2999, 1, 2, 2, 4, 5, tzinfo=UTC)


def test_one_unknown_queue_leaves_all_as_they_are(act: Acting) -> None:
    submit_task(queue="mail")
    act("pause", "mail", "mial", *REASON)
    assert act.code == OperatingCode.REFUSED
    assert (Queue.objects.exclude(paused_at=None).count(), records()) == (0, [])


def test_a_reason_is_required_and_says_something(act: Acting) -> None:
    task = str(submit_task())
    for reason in ("", "  ab  ", "x" * 1001):
        act("cancel", task, "--reason", reason)
        assert act.code == OperatingCode.USAGE
        assert "A reason has 5 to 1,000 characters" in act.err
    with pytest.raises(CommandError, match="--reason"):
        call_command("ledgence_cancel", task)
    assert state_of(UUID(task)) == "queued"


def test_many_rows_need_their_number(act: Acting) -> None:
    tasks = [str(task) for task in submit_tasks(TYPED_ABOVE + 1)]
    act("cancel", *tasks, *REASON)
    assert (act.code, act.err) == (
        OperatingCode.USAGE,
        "101 rows are named. Add --count 101 if you mean them all.",
    )
    act("cancel", *tasks, "--count", "100", *REASON)
    assert (act.code, act.err) == (OperatingCode.USAGE, "101 rows are named, not 100; nothing was changed.")
    assert records() == []
    assert act.told("cancel", *tasks, "--count", "101", *REASON)["changed"] == 101
    assert act.code == OperatingCode.DONE


@pytest.mark.parametrize(
    "name", ["7", "", "x" * 36, f"{AN_ID}:-1", f"{AN_ID}:1e3", f"{AN_ID}:٣", f"{AN_ID}:1234567890"]
)
def test_what_is_no_task_is_refused_before_anything_is_done(name: str, act: Acting) -> None:
    task = submit_task()
    act("cancel", str(task), name, *REASON)
    assert act.code == OperatingCode.USAGE
    assert "is neither a task's id nor ID:REVISION" in act.err
    assert (state_of(task), records()) == ("queued", [])


@pytest.mark.django_db(transaction=True)
def test_a_row_that_somebody_holds_is_told_and_nothing_is_done(act: Acting, settings) -> None:
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 0.1}
    task = submit_task()
    with Rival() as rival, rival.transaction():
        rival.execute("select * from ledgence_deliveryintent for update")
        act("cancel", str(task), *REASON)
    assert (act.code, state_of(task), records()) == (OperatingCode.REFUSED, "queued", [])
    assert "another transaction holds a row" in act.err


def test_a_requeued_task_may_be_cancelled_and_requeued_again(act: Acting, failed: UUID) -> None:
    for _ in range(2):
        act("requeue", str(failed), *REASON)
        assert act.code == OperatingCode.DONE
        cancel([failed], using=USING)
    assert [attempt.cause for attempt in attempts_of(failed)] == ["submitted", "requeued", "requeued"]
