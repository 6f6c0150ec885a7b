"""Every list and every page shows what is there, in a fixed number of statements, and can be changed by nobody."""

import html
import re
from uuid import UUID

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from ledgence.admin.quarantine import ADVICE
from ledgence.models import OperatorAction, QuarantinedMessage
from ledgence.operations.cancel import cancel
from ledgence.operations.sessions import close_session
from tests.admin.conftest import VIEWED, Ledger
from tests.ledger.actors import USING, execute, expire_leases, submit_tasks

pytestmark = pytest.mark.django_db


def page_of(model: str, page: str = "changelist", *args: object, **query: str) -> str:
    return reverse(f"admin:ledgence_{model}_{page}", args=args, query=query or None)


def shown(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, (address, response.status_code, getattr(response, "url", ""))
    return response.content.decode()


def tasks_on(client: Client, **query: str) -> list[UUID]:
    """Return the ids on the list of tasks, in its order."""
    response = client.get(page_of("task", **query))
    assert response.status_code == 200, (query, response.status_code)
    return [task.pk for task in response.context["cl"].result_list]


def pages_of(ledger: Ledger) -> list[tuple[str, object]]:
    return [
        *(("task", task) for task in (ledger.queued, ledger.active, ledger.succeeded, ledger.failed, ledger.cancelled)),
        ("attempt", ledger.attempt(ledger.failed).pk),
        ("lease", ledger.active),
        ("deliveryintent", ledger.queued),
        ("workersession", ledger.worker.session_id),
        ("queue", ledger.queue.pk),
        ("program", ledger.program.pk),
        ("publisher", ledger.publisher.pk),
        ("quarantinedmessage", ledger.quarantined.pk),
        ("operatoraction", OperatorAction.objects.get().pk),
        ("apitoken", ledger.token.pk),
    ]


@pytest.mark.parametrize("model", VIEWED)
def test_every_list_shows_to_a_viewer_and_to_an_operator(
    model: str, ledger: Ledger, viewer: Client, op: Client
) -> None:
    for client in (viewer, op):
        assert client.get(page_of(model)).context["cl"].result_count > 0


def test_every_page_of_a_row_shows_to_a_viewer_and_to_an_operator(ledger: Ledger, viewer: Client, op: Client) -> None:
    for model, pk in pages_of(ledger):
        for client in (viewer, op):
            shown(client, page_of(model, "change", pk))


@pytest.mark.parametrize("model", VIEWED)
def test_not_even_a_superuser_adds_changes_or_deletes_a_row(model: str, ledger: Ledger, client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    pk = dict(pages_of(ledger))[model]
    # A token is issued, which is no row that somebody fills in: test_tokens.py.
    assert client.get(page_of(model, "add")).status_code == (200 if model == "apitoken" else 403)
    assert client.post(page_of(model, "change", pk), {"tenant": "other"}).status_code == 403
    assert client.post(page_of(model, "delete", pk), {"post": "yes"}).status_code == 403
    assert "delete_selected" not in shown(client, page_of(model))


def test_a_stranger_sees_nothing(ledger: Ledger, staff) -> None:
    stranger = staff()
    for model, pk in pages_of(ledger):
        assert stranger.get(page_of(model)).status_code == 403
        assert stranger.get(page_of(model, "change", pk)).status_code == 403


def test_the_state_filter_finds_each_state_and_no_other(ledger: Ledger, viewer: Client) -> None:
    assert tasks_on(viewer, state="queued") == [ledger.queued, ledger.requeued]
    assert tasks_on(viewer, state="active") == [ledger.active]
    assert tasks_on(viewer, state="succeeded") == [ledger.succeeded]
    assert tasks_on(viewer, state="failed") == [ledger.failed]
    assert tasks_on(viewer, state="cancelled") == [ledger.cancelled]
    assert len(tasks_on(viewer)) == 6


def test_ended_tasks_come_by_their_end_the_latest_first(ledger: Ledger, viewer: Client) -> None:
    older, newer = sorted([ledger.failed, *submit_tasks(1)])
    execute("update ledgence_task set outcome = 'failed', finished_at = now() - interval '1 h' where id = %s", [newer])
    assert tasks_on(viewer, state="failed") == [older, newer]


@pytest.mark.parametrize("state", [None, "queued", "active", "succeeded", "failed", "cancelled"])
def test_a_queue_narrows_every_state(state: str | None, ledger: Ledger, viewer: Client) -> None:
    [elsewhere] = submit_tasks(1, queue="other")
    query = {"state": state} if state else {}
    in_default = tasks_on(viewer, queue=str(ledger.queue.pk), **query)
    assert in_default == [task for task in tasks_on(viewer, **query) if task != elsewhere]
    assert tasks_on(viewer, q="queue:default", **query) == in_default
    assert tasks_on(viewer, q="program:tests.work", **query) == tasks_on(viewer, **query)
    assert tasks_on(viewer, q="program:unknown", **query) == []
    assert (elsewhere in tasks_on(viewer, q="queue:other", **query)) == (state in (None, "queued"))


def test_search_finds_by_id_and_by_correlation_key_in_full(ledger: Ledger, viewer: Client) -> None:
    assert tasks_on(viewer, q=str(ledger.failed)) == [ledger.failed]
    assert tasks_on(viewer, q=f" {ledger.failed} ") == [ledger.failed]
    assert set(tasks_on(viewer, q="order-7")) == {ledger.succeeded, ledger.failed, ledger.requeued}
    assert tasks_on(viewer, q="order") == []
    assert tasks_on(viewer, q=str(ledger.failed), state="queued") == []


@pytest.mark.parametrize(
    "query",
    [
        {"data__startswith": "{"},
        {"tenant": "default"},
        {"queue__name": "default"},
        {"id__gt": "0"},
        {"outcome": "failed"},
    ],
)
def test_no_column_can_be_asked_for_by_address(query: dict[str, str], ledger: Ledger, viewer: Client) -> None:
    assert viewer.get(page_of("task", **query)).status_code == 400


@pytest.mark.parametrize("query", [{"state": "asleep"}, {"queue": "1;"}, {"queue": "99999999999999"}])
def test_a_word_that_no_filter_knows_is_refused(query: dict[str, str], ledger: Ledger, viewer: Client) -> None:
    response = viewer.get(page_of("task", **query))
    assert (response.status_code, response.url) == (302, page_of("task") + "?e=1")  # type: ignore[attr-defined]


def test_the_order_cannot_be_changed_by_address(ledger: Ledger, viewer: Client) -> None:
    assert tasks_on(viewer, o="4.-3") == tasks_on(viewer)
    assert "ORDER BY" in (statement := _statement_of_page(viewer, page_of("task", o="4")))
    assert statement.split("ORDER BY")[1].split("LIMIT")[0].strip() == '"ledgence_task"."id" DESC'


def _statement_of_page(client: Client, address: str) -> str:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        shown(client, address)
    [statement] = [
        q["sql"] for q in captured if "LIMIT 50" in q["sql"] and q["sql"].startswith('SELECT "ledgence_task"')
    ]
    return statement


@pytest.mark.parametrize("model", VIEWED)
def test_a_list_takes_as_many_statements_for_many_rows_as_for_few(model: str, ledger: Ledger, op: Client) -> None:
    def count(address: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            shown(op, address)
        return len(captured)

    address = page_of(model)
    count(address)
    few = count(address)
    submit_tasks(60)
    ledger.worker.acquire(20)
    for number in range(10):
        submit_tasks(1, queue=f"queue-{number}")
    # Several pages take one more: the keys of the one that is shown.
    assert few <= count(address) <= few + 1 <= 12


@pytest.mark.parametrize("state", ["queued", "active", "succeeded", "failed", "cancelled", ""])
def test_a_page_of_tasks_takes_at_most_a_dozen_statements(state: str, ledger: Ledger, op: Client) -> None:
    address = page_of("task", state=state) if state else page_of("task")
    shown(op, address)
    with CaptureQueriesContext(connection) as captured:
        shown(op, address)
    assert len(captured) <= 12, [q["sql"] for q in captured]


def test_lists_end_at_the_cap_and_say_so(ledger: Ledger, viewer: Client, monkeypatch) -> None:
    monkeypatch.setattr("ledgence.admin.paging.CAP", 100)
    submit_tasks(94)
    assert "There are more than" not in shown(viewer, page_of("task"))
    submit_tasks(1)
    response = viewer.get(page_of("task", p="2"))
    assert response.context["cl"].result_count == 100
    assert "There are more than" in response.content.decode()
    assert viewer.get(page_of("task", p="3")).status_code == 302


@pytest.mark.parametrize("state", ["", "queued", "cancelled"])
def test_pages_follow_each_other_in_one_order(state: str, ledger: Ledger, viewer: Client) -> None:
    tasks = submit_tasks(120)
    if state == "cancelled":
        cancel(tasks, using=USING)
    query = {"state": state} if state else {}
    pages = [tasks_on(viewer, p=str(number), **query) for number in (1, 2, 3)]
    assert [len(page) for page in pages[:2]] == [50, 50]
    rows = [task for page in pages for task in page]
    assert rows == sorted(rows, reverse=True)
    assert set(tasks) <= set(rows)


def test_leases_are_shown_by_expiry_and_narrowed_by_their_state(ledger: Ledger, viewer: Client) -> None:
    [other] = submit_tasks(1, priority=9)
    ledger.worker.acquire_one()
    expire_leases(other)

    def leases(**query: str) -> list[UUID]:
        return [lease.pk for lease in viewer.get(page_of("lease", **query)).context["cl"].result_list]

    assert leases() == [other, ledger.active]
    assert leases(state="expired") == [other]
    assert leases(state="live") == [ledger.active]
    assert leases(state="expiring") == []
    assert leases(state="silent") == []
    assert leases(q=str(ledger.worker.session_id)) == [other, ledger.active]
    assert re.search(r"expired \d+\.\d s ago", shown(viewer, page_of("lease", "change", other)))
    execute("update ledgence_lease set expires_at = now() + interval '29 s' where task_id = %s", [ledger.active])
    assert leases(state="expiring") == [ledger.active]
    fall_silent(ledger)
    assert leases(state="silent") == [other, ledger.active]
    assert "worker silent" in shown(viewer, page_of("lease", "change", ledger.active))


def fall_silent(ledger: Ledger) -> None:
    """Let the worker be unheard of for longer than half a lease."""
    execute(
        "update ledgence_workersession set opened_at = now() - interval '1 h', extended_at = now() - interval '31 s'"
    )


def stuck_on(client: Client, word: str = "yes") -> list[UUID]:
    """Return the intents that the filter finds by one of its words."""
    return [intent.pk for intent in client.get(page_of("deliveryintent", stuck=word)).context["cl"].result_list]


def test_the_stuck_filter_finds_work_that_waits_though_it_is_due(ledger: Ledger, viewer: Client) -> None:
    assert stuck_on(viewer) == []
    execute(
        "update ledgence_deliveryintent set available_at = now() - interval '61 s' where task_id = %s", [ledger.queued]
    )
    assert stuck_on(viewer) == stuck_on(viewer, "overdue") == [ledger.queued]
    assert stuck_on(viewer, "failing") == stuck_on(viewer, "unclaimed") == stuck_on(viewer, "unserved") == []
    fall_silent(ledger)
    assert stuck_on(viewer, "unserved") == [ledger.queued]
    execute("update ledgence_queue set paused_at = now()")
    assert stuck_on(viewer) == stuck_on(viewer, "unserved") == []


#: What an intent of an external queue may be like, and the words that find it beside "yes".
ANNOUNCED: list[tuple[dict[str, str], set[str]]] = [
    ({"next_publish_at": "now() + interval '30 s'"}, set()),
    ({"next_publish_at": "now() - interval '61 s'"}, {"overdue"}),
    ({"publications": "4"}, set()),
    ({"publications": "5"}, {"failing"}),
    ({"publications": "1", "refusals": "1"}, {"failing"}),
    ({"publications": "1", "confirmed_at": "now()"}, set()),
    ({"publications": "2", "confirmed_at": "now()"}, {"unclaimed"}),
    ({"available_at": "now()", "publications": "9", "refusals": "9"}, set()),
]


@pytest.mark.parametrize(("columns", "words"), ANNOUNCED, ids=lambda one: "-".join(sorted(one)) or "nothing")
def test_an_announced_intent_is_stuck_for_its_cause(
    columns: dict[str, str], words: set[str], ledger: Ledger, viewer: Client
) -> None:
    execute("update ledgence_queue set mode = 'external', destination = 'x'")
    announced = {"available_at": "now() - interval '61 s'", "publication_id": "gen_random_uuid()"}
    announced |= {"next_publish_at": "now()"} | columns
    setting = ", ".join(f"{column} = {value}" for column, value in announced.items())
    execute(f"update ledgence_deliveryintent set {setting} where task_id = %s", [ledger.queued])  # noqa: S608
    found = {word for word in ("overdue", "failing", "unclaimed", "unserved") if stuck_on(viewer, word)}
    assert found == words
    assert stuck_on(viewer) == ([ledger.queued] if words else [])


def test_announced_work_without_a_live_publisher_is_unserved(ledger: Ledger, viewer: Client) -> None:
    execute("update ledgence_queue set mode = 'external', destination = 'x'")
    execute(
        "update ledgence_deliveryintent set available_at = now() - interval '61 s', next_publish_at = now(), "
        "publication_id = gen_random_uuid() where task_id = %s",
        [ledger.queued],
    )
    assert stuck_on(viewer, "unserved") == []
    assert "no live publisher" not in shown(viewer, page_of("queue"))
    execute("update ledgence_publisher set turned_at = now() - interval '61 s'")
    assert stuck_on(viewer, "unserved") == [ledger.queued]
    assert "no live publisher" in shown(viewer, page_of("queue"))


def sessions_on(client: Client, **query: str) -> list[str]:
    return [session.state for session in client.get(page_of("workersession", **query)).context["cl"].result_list]


def test_a_session_is_live_silent_or_ended(ledger: Ledger, viewer: Client) -> None:
    assert sessions_on(viewer) == sessions_on(viewer, state="live") == ["live"]
    fall_silent(ledger)
    assert sessions_on(viewer) == sessions_on(viewer, state="silent") == ["silent"]
    assert sessions_on(viewer, state="live") == []
    close_session(ledger.worker.session_id, using=USING)
    assert sessions_on(viewer) == sessions_on(viewer, state="silent") == []
    assert sessions_on(viewer, state="ended") == sessions_on(viewer, state="all") == ["ended"]


def test_a_session_tells_what_it_runs_now(ledger: Ledger, viewer: Client) -> None:
    assert "tests.work</td>" in shown(viewer, page_of("workersession"))
    submit_tasks(2)
    ledger.worker.acquire(2)
    assert "3 × tests.work" in shown(viewer, page_of("workersession"))
    assert "3 of 8 slots" in shown(viewer, page_of("workersession"))


def test_a_session_with_expired_leases_says_so(ledger: Ledger, viewer: Client) -> None:
    assert "expired" not in shown(viewer, page_of("workersession")).split("result_list")[1]
    expire_leases()
    assert "1 lease expired" in shown(viewer, page_of("workersession"))
    assert str(ledger.active) in shown(viewer, page_of("workersession", "change", ledger.worker.session_id))


def test_programs_tell_which_live_workers_have_them(ledger: Ledger, viewer: Client) -> None:
    submit_tasks(1, program="tests.nobody")

    def programs(**query: str) -> list[str]:
        return [program.name for program in viewer.get(page_of("program", **query)).context["cl"].result_list]

    assert programs() == ["tests.nobody", "tests.work"]
    assert programs(workers="yes") == programs(q="tests.work") == ["tests.work"]
    assert programs(workers="no") == ["tests.nobody"]
    assert page_of("task", q="program:tests.work") in shown(viewer, page_of("program"))
    fall_silent(ledger)
    assert programs(workers="yes") == []


def test_publishers_are_live_or_silent_and_tell_what_fails(ledger: Ledger, viewer: Client) -> None:
    def publishers(**query: str) -> int:
        return len(viewer.get(page_of("publisher", **query)).context["cl"].result_list)

    assert publishers() == publishers(state="live") == publishers(state="failing") == 1
    assert publishers(q="mill") == publishers(q="default") == 1
    assert publishers(state="silent") == publishers(q="nowhere") == 0
    assert "no route" in shown(viewer, page_of("publisher", "change", ledger.publisher.pk))
    execute("update ledgence_publisher set turned_at = now() - interval '61 s', failure = ''")
    assert (publishers(state="live"), publishers(state="silent"), publishers(state="failing")) == (0, 1, 0)


def test_quarantined_messages_are_found_by_reason_queue_and_id(ledger: Ledger, viewer: Client) -> None:
    def messages(**query: str) -> int:
        return len(viewer.get(page_of("quarantinedmessage", **query)).context["cl"].result_list)

    assert messages() == messages(reason="malformed") == messages(queue=str(ledger.queue.pk)) == messages(q="m-1") == 1
    assert messages(reason="foreign") == messages(queue="0") == messages(q="m") == 0
    page = shown(viewer, page_of("quarantinedmessage", "change", ledger.quarantined.pk))
    assert "not JSON" in page and "&lt;hello&gt;" in page


def test_a_queue_tells_what_waits_and_for_how_long(ledger: Ledger, viewer: Client) -> None:
    execute(
        "update ledgence_deliveryintent set available_at = now() + interval '1 h' where task_id = %s", [ledger.queued]
    )
    execute(
        "update ledgence_deliveryintent set available_at = now() - interval '2 h' where task_id = %s", [ledger.requeued]
    )
    [row] = viewer.get(page_of("queue")).context["cl"].result_list
    assert (row.load.due, row.load.later, row.load.active) == (1, 1, 1)
    assert "2 h 0 min" in shown(viewer, page_of("queue"))


def test_a_row_that_is_gone_is_told_as_such(ledger: Ledger, viewer: Client) -> None:
    for pk in (ledger.worker.session_id, "no-id"):
        response = viewer.get(page_of("task", "change", pk), follow=True)
        assert "doesn’t exist" in response.content.decode()


def test_all_of_the_ledgers_pages_are_registered() -> None:
    assert {m._meta.model_name for m in admin.site._registry if m._meta.app_label == "ledgence"} == set(VIEWED)


def test_a_queue_leads_to_its_tasks(ledger: Ledger, viewer: Client) -> None:
    page = shown(viewer, page_of("queue", "change", ledger.queue.pk))
    found = {}
    for address, label in re.findall(r'<a href="([^"]*task/\?queue=[^"]*)">(\w+)</a>', page):
        rows = viewer.get(html.unescape(address)).context["cl"].result_list
        found[label] = {task.pk for task in rows}
    assert ledger.queued in found["queued"]
    assert found["active"] == {ledger.active}
    assert found["failed"] == {ledger.failed}


@pytest.mark.parametrize(("model", "row"), [("deliveryintent", "queued"), ("lease", "active")])
def test_live_work_leads_to_its_explanation(model: str, row: str, ledger: Ledger, viewer: Client) -> None:
    task = getattr(ledger, row)
    page = shown(viewer, page_of(model, "change", task))
    assert re.search(rf'<a href="{page_of("task", "change", task)}">Why [\w ]+\?</a>', page)


def test_who_is_silent_says_what_to_do(ledger: Ledger, viewer: Client) -> None:
    told = {("workersession", ledger.worker.session_id): "worker", ("publisher", ledger.publisher.pk): "publisher"}
    for model, pk in told:
        assert "What to do" not in shown(viewer, page_of(model, "change", pk))
    fall_silent(ledger)
    execute("update ledgence_publisher set turned_at = now() - interval '61 s'")
    for (model, pk), command in told.items():
        page = shown(viewer, page_of(model, "change", pk))
        assert "What to do" in page
        assert re.search(r"Not heard of for \d", page)
        assert f"manage.py ledgence_{command}" in page
    worker = page_of("workersession", "change", ledger.worker.session_id)
    assert re.search(r"the last of its leases expires at [-0-9]{10} [0-9:]{8} \w+\.", shown(viewer, worker))
    execute("delete from ledgence_lease")
    assert "it holds no lease" in shown(viewer, worker)


@pytest.mark.parametrize("reason", QuarantinedMessage.Reason)
def test_a_quarantined_message_says_what_to_do(reason: str, ledger: Ledger, viewer: Client) -> None:
    execute("update ledgence_quarantinedmessage set reason = %s", [reason])
    page = shown(viewer, page_of("quarantinedmessage", "change", ledger.quarantined.pk))
    assert str(ADVICE[QuarantinedMessage.Reason(reason)]) in html.unescape(page)
