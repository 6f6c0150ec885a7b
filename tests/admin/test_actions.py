"""Every action: its permission, its confirmation with a reason, the recorded operation, what the operator is told."""

import html
import re
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.models import User
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone

from ledgence.models import OperatorAction, OperatorActionTarget, Queue, Task
from ledgence_worker.protocol import Outcome
from tests.admin.conftest import Ledger
from tests.admin.test_pages import page_of
from tests.ledger.actors import (
    assert_audit_clean,
    execute,
    expire_leases,
    make_due,
    outcomes_of,
    state_of,
    submit_task,
    submit_tasks,
)

pytestmark = pytest.mark.django_db

#: What each action needs beside the right to see its list.
PERMISSIONS = {
    "requeue": "requeue_task",
    "requeue_as_copy": "requeue_task",
    "cancel": "cancel_task",
    "run_now": "run_task",
    "move": "move_task",
    "set_priority": "prioritize_task",
    "republish": "republish_deliveryintent",
    "force_expire": "expire_lease",
    "pause": "pause_queue",
    "resume": "pause_queue",
    "drain": "drain_workersession",
    "stop": "bulk_operatoraction",
    "revoke": "revoke_apitoken",
}
HIDDEN = ("targets", "scope", "bound", "count", "action_id", "back")
REASON = "the disk was full"
#: What actions ask for beside the reason.
CHOICES = {"queue": "default", "priority": "3"}


def action_routes() -> Iterator[tuple[str, str]]:
    """Yield (model, action) of every address of the ledger's admin that is not one of admin's own pages."""
    own = {"changelist", "add", "history", "delete", "change", "overview"}
    for name in get_resolver("ledgence_project.urls").namespace_dict["admin"][1].reverse_dict:
        if isinstance(name, str) and name.startswith("ledgence_"):
            _, model, page = name.split("_", 2)
            if page not in own:
                yield model, page


ROUTES = sorted(action_routes())


def target_of(model: str, ledger: Ledger) -> object:
    """Return the id of a row that a list's actions may name."""
    own: dict[str, object] = {
        "queue": ledger.queue.pk,
        "apitoken": ledger.token.pk,
        "operatoraction": ledger.action.pk,
        "workersession": ledger.worker.session_id,
    }
    return own.get(model, ledger.queued)


def ask(client: Client, model: str, action: str, *ids: object) -> dict[str, str]:
    """Open the confirmation and return what its form would send."""
    response = client.get(page_of(model, action, ids=",".join(map(str, ids))))
    assert response.status_code == 200, response.status_code
    return fields_of(response.content.decode())


def fields_of(page: str) -> dict[str, str]:
    hidden = re.findall(r'<input type="hidden" name="(\w+)"(?: value="([^"]*)")?', page)
    return {name: html.unescape(value) for name, value in hidden if name in HIDDEN}


def confirm(client: Client, model: str, action: str, fields: dict[str, str], **more: str) -> str:
    """Send the confirmation and return the message that the operator sees."""
    response = client.post(page_of(model, action), fields | {"reason": REASON} | more, follow=True)
    assert response.status_code == 200
    [message] = response.context["messages"]
    return re.sub(r" <a .*", "", str(message))


def carry_out(client: Client, model: str, action: str, *ids: object, **more: str) -> str:
    return confirm(client, model, action, ask(client, model, action, *ids), **more)


def choose(client: Client, model: str, action: str, *ids: object, across: bool = False, **query: str):
    """Choose an action on a list for the ticked rows."""
    data = {"action": action, ACTION_CHECKBOX_NAME: list(map(str, ids)), "index": "0"}
    return client.post(page_of(model, **query), data | ({"select_across": "1"} if across else {}))


def answers_of(action_id: str) -> dict[str, str]:
    return dict(OperatorActionTarget.objects.filter(action=UUID(action_id)).values_list("target", "answer"))


# Permissions


def test_the_matrix_covers_every_route() -> None:
    assert {action for _, action in ROUTES} == set(PERMISSIONS)
    assert len(ROUTES) == 20


def test_every_list_action_declares_its_permission() -> None:
    for page in admin.site._registry.values():
        if page.opts.app_label == "ledgence":
            assert all(getattr(action, "allowed_permissions", None) for action in page.actions or [])


# What each does


def test_requeue_makes_failed_and_cancelled_tasks_ready_and_is_recorded(ledger: Ledger, op: Client) -> None:
    form = ask(op, "task", "requeue", ledger.failed, ledger.cancelled)
    assert confirm(op, "task", "requeue", form) == "Requeue: changed 2 tasks, skipped 0."
    assert {state_of(ledger.failed), state_of(ledger.cancelled)} == {"queued"}
    action = OperatorAction.objects.get(pk=form["action_id"])
    assert action.actor is not None
    assert (action.kind, action.reason, action.actor_name) == ("requeue", REASON, action.actor.username)
    assert answers_of(form["action_id"]) == {str(ledger.failed): "requeued", str(ledger.cancelled): "requeued"}
    assert_audit_clean()


def test_what_was_skipped_is_told_with_the_reasons(ledger: Ledger, op: Client) -> None:
    gone = uuid4()
    ids = (ledger.failed, ledger.succeeded, ledger.queued, ledger.active, gone)
    page = op.get(page_of("task", "requeue", ids=",".join(map(str, ids)))).content.decode()
    assert "1 of 5 tasks is eligible now." in page
    for why in ("1: is queued", "1: is active", "1: succeeded and is never reopened", "1: no longer exists"):
        assert why in page
    told = confirm(op, "task", "requeue", fields_of(page))
    assert told.startswith("Requeue: changed 1 task, skipped 4 (")
    for why in ("2 queued or active", "1 succeeded: requeue as a copy", "1 no longer exists"):
        assert why in told


def test_requeue_leaves_a_task_that_moved_on_since_the_operator_looked(ledger: Ledger, op: Client) -> None:
    form = ask(op, "task", "requeue", ledger.failed)
    carry_out(op, "task", "requeue", ledger.failed)
    carry_out(op, "task", "cancel", ledger.failed)
    assert confirm(op, "task", "requeue", form) == "Requeue: changed 0 tasks, skipped 1 (1 moved on since you looked)."
    assert state_of(ledger.failed) == "cancelled"


def test_requeue_as_copy_makes_a_new_task_linked_to_the_old_one(ledger: Ledger, op: Client) -> None:
    assert carry_out(op, "task", "requeue_as_copy", ledger.succeeded) == "Requeue as copy: changed 1 task, skipped 0."
    copy = Task.objects.get(copy_of=ledger.succeeded)
    assert (state_of(copy.pk), state_of(ledger.succeeded), copy.data) == ("queued", "succeeded", {"n": 1})


def test_cancel_ends_queued_tasks_and_asks_active_ones(ledger: Ledger, op: Client) -> None:
    told = carry_out(op, "task", "cancel", ledger.queued, ledger.active, ledger.failed)
    assert told == "Cancel: changed 2 tasks (1 asked to stop), skipped 1 (1 ended before)."
    assert (state_of(ledger.queued), state_of(ledger.active)) == ("cancelled", "active")
    assert "asked to stop" in op.get(page_of("lease")).content.decode()


@pytest.mark.parametrize("model", ["task", "deliveryintent"])
def test_republish_gives_queued_work_a_new_epoch(model: str, ledger: Ledger, op: Client) -> None:
    told = carry_out(op, model, "republish", ledger.queued, ledger.active)
    assert told == "Republish: changed 1 task, skipped 1 (1 not queued)."
    assert Task.objects.get(pk=ledger.queued).intent.epoch == 2
    assert "republish" in op.get(page_of("task", "change", ledger.queued)).content.decode()


@pytest.mark.parametrize("model", ["task", "lease"])
def test_force_expire_ends_the_attempt_and_warns_that_its_program_may_go_on(
    model: str, ledger: Ledger, op: Client
) -> None:
    page = op.get(page_of(model, "force_expire", ids=str(ledger.active))).content.decode()
    assert "The program may still be running" in page
    assert "may happen twice" in page
    assert confirm(op, model, "force_expire", fields_of(page)) == "Force-expire lease: changed 1 task, skipped 0."
    assert outcomes_of(ledger.active) == ["lost"]
    assert_audit_clean()


def test_force_expire_leaves_an_attempt_that_began_since_the_operator_looked(ledger: Ledger, op: Client) -> None:
    form = ask(op, "lease", "force_expire", ledger.active)
    carry_out(op, "lease", "force_expire", ledger.active)
    make_due(ledger.active)
    ledger.worker.acquire_one()
    told = confirm(op, "lease", "force_expire", form)
    assert told == "Force-expire lease: changed 0 tasks, skipped 1 (1 another attempt since you looked)."
    assert state_of(ledger.active) == "active"


def test_pause_and_resume_say_who_and_why(ledger: Ledger, op: Client) -> None:
    queue = ledger.queue.pk
    assert carry_out(op, "queue", "pause", queue) == "Pause: changed 1 queue, skipped 0."
    assert Queue.objects.get(pk=queue).pause_reason == REASON
    assert REASON in op.get(page_of("queue")).content.decode()
    assert REASON in op.get(page_of("task", "change", ledger.queued)).content.decode()
    assert carry_out(op, "queue", "pause", queue) == "Pause: changed 0 queues, skipped 1 (1 paused already)."
    assert carry_out(op, "queue", "resume", queue) == "Resume: changed 1 queue, skipped 0."
    assert Queue.objects.get(pk=queue).paused_at is None


def test_run_now_makes_later_work_due(ledger: Ledger, op: Client) -> None:
    later = submit_task(run_after=timezone.now() + timedelta(hours=1))
    page = op.get(page_of("task", "run_now", ids=f"{later},{ledger.queued},{ledger.active}")).content.decode()
    assert "1 of 3 tasks is eligible now." in page
    assert "1: is due already" in page and "1: is active" in page
    told = confirm(op, "task", "run_now", fields_of(page))
    assert told == "Run now: changed 1 task, skipped 2 (1 not queued, 1 due already)."
    assert Task.objects.get(pk=later).intent.available_at < timezone.now()


def test_move_lets_work_wait_in_another_queue(ledger: Ledger, op: Client) -> None:
    Queue.objects.create(tenant="default", namespace="default", name="other")
    form = ask(op, "task", "move", ledger.queued, ledger.active)
    assert '<option value="other">' in op.get(page_of("task", "move", ids=str(ledger.queued))).content.decode()
    told = confirm(op, "task", "move", form, queue="other")
    assert told == "Move to queue: changed 1 task, skipped 1 (1 not queued)."
    assert Task.objects.get(pk=ledger.queued).queue.name == "other"
    page = op.get(page_of("operatoraction", "change", form["action_id"])).content.decode()
    assert "queue: other" in page and "1 changed, 1 skipped, of 2" in page and "not_queued: 1" in page
    assert_audit_clean()


@pytest.mark.parametrize(
    ("action", "more"),
    [("move", {"queue": "no such"}), ("move", {"queue": ""}), ("move", {})]
    + [("set_priority", {"priority": wrong}) for wrong in ("", "101", "-101", "x", "1.5")],
)
def test_what_cannot_be_chosen_is_told_beside_the_field(
    action: str, more: dict[str, str], ledger: Ledger, op: Client
) -> None:
    form = ask(op, "task", action, ledger.queued)
    page = op.post(page_of("task", action), form | {"reason": REASON} | more).content.decode()
    assert "errorlist" in page and fields_of(page) == form
    assert not OperatorAction.objects.filter(reason=REASON).exists()


def test_set_priority_lets_work_overtake(ledger: Ledger, op: Client) -> None:
    told = carry_out(op, "deliveryintent", "set_priority", ledger.queued, priority="50")
    assert told == "Set priority: changed 1 task, skipped 0."
    assert Task.objects.get(pk=ledger.queued).intent.priority == 50


@pytest.mark.parametrize("action", ["run_now", "move", "set_priority", "republish", "cancel"])
def test_work_that_was_tried_and_requeued_since_the_operator_looked_is_left(
    action: str, ledger: Ledger, op: Client
) -> None:
    form = ask(op, "task", action, ledger.requeued)
    ledger.worker.settle(ledger.worker.acquire_one(), Outcome.FAILED)
    carry_out(op, "task", "requeue", ledger.requeued)
    told = confirm(op, "task", action, form, **CHOICES)
    assert "changed 0 tasks" in told and "moved on since you looked" in told
    assert (state_of(ledger.requeued), Task.objects.get(pk=ledger.requeued).intent.epoch) == ("queued", 1)


def test_drain_asks_a_worker_to_stop_and_its_page_says_so(ledger: Ledger, op: Client) -> None:
    session = ledger.worker.session_id
    page = op.get(page_of("workersession", "change", session)).content.decode()
    assert f"/workersession/drain/?ids={session}" in page
    assert carry_out(op, "workersession", "drain", session) == "Drain: changed 1 worker session, skipped 0."
    page = op.get(page_of("workersession", "change", session)).content.decode()
    assert ">drains<" in page and REASON in page and "/workersession/drain/?" not in page
    told = carry_out(op, "workersession", "drain", session, uuid4())
    assert told == "Drain: changed 0 worker sessions, skipped 2 (1 no longer exists, 1 draining already)."
    assert ledger.worker.acquire(5) == []


def test_a_pause_has_an_end_and_a_stale_resumption_does_nothing(ledger: Ledger, op: Client) -> None:
    queue, until = ledger.queue.pk, timezone.localtime() + timedelta(hours=2)
    form = ask(op, "queue", "pause", queue)
    told = confirm(op, "queue", "pause", form, until=until.strftime("%Y-%m-%dT%H:%M"))
    assert told == "Pause: changed 1 queue, skipped 0."
    assert Queue.objects.get(pk=queue).paused_until == until.replace(second=0, microsecond=0)
    assert "until" in op.get(page_of("queue")).content.decode()
    stale = ask(op, "queue", "resume", queue)
    carry_out(op, "queue", "resume", queue)
    carry_out(op, "queue", "pause", queue)
    told = confirm(op, "queue", "resume", stale)
    assert told == "Resume: changed 0 queues, skipped 1 (1 moved on since you looked)."
    assert Queue.objects.get(pk=queue).paused_at is not None


def test_a_pause_until_a_time_that_is_over_is_refused(ledger: Ledger, op: Client) -> None:
    form = ask(op, "queue", "pause", ledger.queue.pk)
    page = op.post(page_of("queue", "pause"), form | {"reason": REASON, "until": "2020-01-01T00:00"}).content.decode()
    assert re.search(
        r'<ul class="errorlist"[^>]*><li>2020-01-01 00:00:00 \w+ is over\.</li></ul>\s*<label for="id_until"', page
    )
    assert ledger.queue.paused_at is None


def test_a_pause_asks_for_the_reason_first_and_tells_the_time(ledger: Ledger, op: Client) -> None:
    page = op.get(page_of("queue", "pause", ids=str(ledger.queue.pk))).content.decode()
    assert page.index('name="reason"') < page.index('name="until"')
    assert re.search(r"It is \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w+ now\.", page)


def test_a_confirmation_and_its_record_call_rows_what_people_call_them(ledger: Ledger, op: Client) -> None:
    rows = {
        ("queue", "pause"): (ledger.queue, "default"),
        ("workersession", "drain"): (ledger.session, str(ledger.session)),
        ("apitoken", "revoke"): (ledger.token, str(ledger.token)),
    }
    for (model, action), (row, words) in rows.items():
        page = op.get(page_of(model, action, ids=str(row.pk))).content.decode()
        assert f'<li><a href="{page_of(model, "change", row.pk)}">{words}</a></li>' in page
    carry_out(op, "queue", "pause", ledger.queue.pk)
    record = OperatorAction.objects.get(kind="pause")
    page = op.get(page_of("operatoraction", "change", record.pk)).content.decode()
    assert f'<a href="{page_of("queue", "change", ledger.queue.pk)}">default</a>' in page
    carry_out(op, "apitoken", "revoke", ledger.token.pk)
    record = OperatorAction.objects.get(kind="revoke_token")
    assert f">{ledger.token}</a>" in op.get(page_of("operatoraction", "change", record.pk)).content.decode()
    page = op.get(page_of("queue", "resume", ids=str(ledger.queue.pk))).content.decode()
    assert re.search(rf"default, paused by staff-\w+ since [-0-9]+ [0-9:]+ \w+: “{REASON}”", page)


# The confirmation


def test_a_double_click_acts_once_and_answers_the_same(ledger: Ledger, op: Client) -> None:
    form = ask(op, "task", "requeue", ledger.failed)
    assert confirm(op, "task", "requeue", form) == confirm(op, "task", "requeue", form)
    assert OperatorAction.objects.filter(reason=REASON).count() == 1
    assert_audit_clean()


def test_an_action_id_cannot_be_used_again_for_other_rows(ledger: Ledger, op: Client) -> None:
    form = ask(op, "task", "requeue", ledger.failed)
    confirm(op, "task", "requeue", form)
    other = ask(op, "task", "requeue", ledger.cancelled) | {"action_id": form["action_id"]}
    response = op.post(page_of("task", "requeue"), other | {"reason": REASON})
    assert "was recorded before" in response.content.decode()
    assert state_of(ledger.cancelled) == "cancelled"


@pytest.mark.parametrize("reason", ["", "    ", "oops", "a\0bcdef", "x" * 1001])
def test_a_reason_is_required(reason: str, ledger: Ledger, op: Client) -> None:
    form = ask(op, "task", "requeue", ledger.failed)
    response = op.post(page_of("task", "requeue"), form | {"reason": reason})
    page = response.content.decode()
    assert response.status_code == 200
    assert "errorlist" in page
    assert fields_of(page) == form
    assert state_of(ledger.failed) == "failed"


def test_a_held_row_is_told_and_the_same_form_can_be_sent_again(ledger: Ledger, op: Client, monkeypatch) -> None:
    from ledgence_worker.errors import Busy

    def busy(*_: object, **__: object) -> None:
        raise Busy("requeue: another transaction holds a row that it needs")

    form = ask(op, "task", "requeue", ledger.failed)
    with monkeypatch.context() as patch:
        patch.setattr("ledgence.operations.operate.record", busy)
        page = op.post(page_of("task", "requeue"), form | {"reason": REASON}).content.decode()
    assert "another transaction holds" in page
    assert confirm(op, "task", "requeue", fields_of(page)) == "Requeue: changed 1 task, skipped 0."


@pytest.mark.parametrize(
    "targets",
    [
        "",
        "x",
        ",",
        "1",
        f"{UUID(int=1)}:x",
        f"{UUID(int=1)}:-1",
        f"{UUID(int=1)}:99999999999",
        ",".join(str(UUID(int=number)) for number in range(1001)),
    ],
)
def test_rows_that_no_page_would_send_are_refused(targets: str, op: Client, ledger: Ledger) -> None:
    form = {"targets": targets, "action_id": str(uuid4()), "reason": REASON}
    assert op.post(page_of("task", "requeue"), form).status_code == 400
    if ":" not in targets:
        assert op.get(page_of("task", "requeue", ids=targets)).status_code == 400


@pytest.mark.parametrize("pk", ["0", "-1", "x", str(2**31), "1:2:3"])
def test_queues_that_no_page_would_send_are_refused(pk: str, op: Client) -> None:
    form = {"targets": pk, "action_id": str(uuid4()), "reason": REASON}
    assert op.post(page_of("queue", "pause"), form).status_code == 400


def test_the_way_back_is_always_on_the_list(ledger: Ledger, op: Client) -> None:
    form = ask(op, "task", "requeue", ledger.failed, ledger.cancelled)
    for back in ("https://elsewhere.example/", "//elsewhere.example/", "/admin/logout/"):
        response = op.post(page_of("task", "requeue"), form | {"reason": REASON, "back": back})
        assert response.headers["location"] == page_of("task")


def test_from_a_page_the_way_back_is_the_page_and_from_a_list_the_list_as_it_was(ledger: Ledger, op: Client) -> None:
    form = ask(op, "task", "requeue", ledger.failed)
    response = op.post(page_of("task", "requeue"), form | {"reason": REASON})
    assert response.headers["location"] == page_of("task", "change", ledger.failed)
    page = choose(op, "task", "requeue", ledger.cancelled, state="cancelled").content.decode()
    response = op.post(page_of("task", "requeue"), fields_of(page) | {"reason": REASON})
    assert response.headers["location"] == page_of("task", state="cancelled")


def test_a_page_offers_what_its_row_allows(ledger: Ledger, op: Client, viewer: Client) -> None:
    def tools(client: Client, task: UUID) -> set[str]:
        page = client.get(page_of("task", "change", task)).content.decode()
        return set(re.findall(r"/ledgence/task/([\w-]+)/\?ids=", page))

    assert tools(op, ledger.failed) == {"requeue", "requeue-as-copy"}
    assert tools(op, ledger.succeeded) == {"requeue-as-copy"}
    assert tools(op, ledger.queued) == {"cancel", "move", "republish", "requeue-as-copy", "set-priority"}
    later = submit_task(run_after=timezone.now() + timedelta(hours=1))
    assert tools(op, later) == tools(op, ledger.queued) | {"run-now"}
    assert tools(op, ledger.active) == {"cancel", "force-expire", "requeue-as-copy"}
    assert tools(viewer, ledger.failed) == set()


# From lists


def test_a_list_asks_for_confirmation_of_the_ticked_rows(ledger: Ledger, op: Client) -> None:
    response = choose(op, "task", "requeue", ledger.failed, ledger.queued)
    page = response.content.decode()
    assert "1 of 2 tasks is eligible now." in page
    assert state_of(ledger.failed) == "failed"
    assert confirm(op, "task", "requeue", fields_of(page)).startswith("Requeue: changed 1 task, skipped 1")


def test_a_ticked_row_that_left_the_list_since_is_told(ledger: Ledger, op: Client) -> None:
    carry_out(op, "task", "requeue", ledger.failed)
    page = choose(op, "task", "requeue", ledger.failed, ledger.cancelled, state="failed").content.decode()
    assert "1 of 2 tasks is eligible now." in page
    assert "1: is queued" in page


def test_all_rows_of_a_narrowed_list_can_be_chosen(ledger: Ledger, op: Client) -> None:
    submit_tasks(60, queue="other")
    other = str(Queue.objects.get(name="other").pk)
    page = choose(op, "task", "cancel", ledger.queued, across=True, state="queued", queue=other).content.decode()
    assert "60 of 60 tasks are eligible now." in page
    assert "and 50 more" in page
    assert "All rows that match: <strong>state: queued, queue: other</strong>" in page
    assert confirm(op, "task", "cancel", fields_of(page)) == "Cancel: changed 60 tasks, skipped 0."


def test_more_than_a_thousand_rows_are_left_to_housekeeping(ledger: Ledger, op: Client) -> None:
    submit_tasks(1000, queue="other")
    other = str(Queue.objects.get(name="other").pk)
    query = {"state": "queued", "queue": other}
    page = choose(op, "task", "cancel", ledger.queued, across=True, **query).content.decode()
    assert "1000 of 1000" in page and "in chunks" not in page
    submit_task(queue="other")
    page = choose(op, "task", "cancel", ledger.queued, across=True, **query).content.decode()
    assert "1001 of 1001" in page and "in chunks" in page
    form = fields_of(page) | {"reason": REASON, "typed": "1001"}
    assert op.post(page_of("task", "cancel"), form).status_code == 302
    assert OperatorAction.objects.filter(kind="cancel", state="running", matched=1001).exists()


def test_a_thousand_rows_go_through_the_form_at_once(ledger: Ledger, op: Client) -> None:
    tasks = submit_tasks(1000, queue="other")
    execute("update ledgence_queue set mode = 'external', destination = 'x' where name = 'other'")
    other = str(Queue.objects.get(name="other").pk)
    page = choose(op, "deliveryintent", "republish", tasks[0], across=True, queue=other).content.decode()
    told = confirm(op, "deliveryintent", "republish", fields_of(page), typed="1000")
    assert told == "Republish: changed 1000 tasks, skipped 0."


def test_an_expired_lease_is_found_and_forced_from_the_list(ledger: Ledger, op: Client) -> None:
    expire_leases()
    page = choose(op, "lease", "force_expire", ledger.active, state="expired").content.decode()
    assert "1 of 1 task is eligible now." in page
    assert confirm(op, "lease", "force_expire", fields_of(page)).startswith("Force-expire lease: changed 1 task")


def test_the_record_shows_each_row_and_its_answer(ledger: Ledger, op: Client) -> None:
    form = ask(op, "task", "requeue", ledger.failed, ledger.succeeded)
    confirm(op, "task", "requeue", form)
    page = op.get(page_of("operatoraction", "change", form["action_id"])).content.decode()
    for text in (REASON, str(ledger.failed), str(ledger.succeeded), ">requeued<", ">succeeded<"):
        assert text in page
    assert REASON in op.get(page_of("task", "change", ledger.failed)).content.decode()
    found = op.get(page_of("operatoraction", q=str(ledger.failed))).context["cl"].result_list
    assert [str(action.pk) for action in found] == [form["action_id"]]


def test_an_account_that_is_deleted_leaves_its_name_in_the_record(ledger: Ledger, op: Client) -> None:
    form = ask(op, "task", "requeue", ledger.failed)
    confirm(op, "task", "requeue", form)
    account = User.objects.get(pk=op.session["_auth_user_id"])
    account.delete()
    assert OperatorAction.objects.filter(pk=form["action_id"], actor=None, actor_name=account.username).exists()
