"""Acting on all rows that match: its own permission, a typed number, chunks in the background, and a stop."""

import re
from uuid import UUID, uuid4

import pytest
from django.contrib import admin
from django.test import Client

from ledgence.admin import across, selection
from ledgence.admin.base import LedgerAdmin
from ledgence.admin.task_actions import TASKS
from ledgence.models import DeliveryIntent, OperatorAction, OperatorActionTarget, Queue
from ledgence.operations.bulk import PARTS, ROWS_MAX, Bulk
from ledgence.operations.cancel import cancel
from tests.admin.conftest import OPERATIONS, VIEWED, Ledger, make_client
from tests.admin.test_actions import REASON, choose, confirm, fields_of
from tests.admin.test_pages import page_of
from tests.ledger.actors import USING, assert_audit_clean, state_of, submit_task, submit_tasks

pytestmark = pytest.mark.django_db
FEW = 5


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let more than five rows be too many for one step, and more than twenty too many for one action."""
    for module in (across, selection):
        monkeypatch.setattr(module, "TARGETS_MAX", FEW)
    monkeypatch.setattr(across, "ROWS_MAX", 20)


@pytest.fixture
def tasks(ledger: Ledger) -> list[UUID]:
    return submit_tasks(12, queue="other")


def query_of(name: str = "other") -> dict[str, str]:
    return {"state": "queued", "queue": str(Queue.objects.get(name=name).pk)}


def ask(client: Client, model: str, action: str, **query: str) -> str:
    response = client.get(page_of(model, action, across="1", **query))
    assert response.status_code == 200, response.status_code
    return response.content.decode()


def apply() -> None:
    bulk = Bulk(USING)
    while bulk.turn():
        pass


def post(client: Client, action: str, fields: dict[str, str], model: str = "task", **more: str):
    return client.post(page_of(model, action), fields | {"reason": REASON} | more)


def test_thousands_are_confirmed_with_what_will_happen_and_begun(ledger: Ledger, op: Client, tasks: list[UUID]) -> None:
    cancel(tasks[:2], using=USING)
    page = ask(op, "task", "cancel", **query_of())
    assert "All rows that match: <strong>state: queued, queue: other</strong>" in page
    assert "10 of 10 tasks are eligible now." in page
    assert "The filter is evaluated again when you confirm" in page
    assert len(re.findall(r"/ledgence/task/[0-9a-f-]{36}/change/", page)) == FEW
    fields = fields_of(page)
    response = post(op, "cancel", fields)
    assert response.headers["location"] == page_of("operatoraction", "change", fields["action_id"])
    action = OperatorAction.objects.get(pk=fields["action_id"])
    assert (action.state, action.matched, action.changed, action.reason) == ("running", 10, 0, REASON)
    assert action.scope is not None
    assert action.scope["words"] == "state: queued, queue: other"
    assert action.scope["list"] == "task"
    assert {state_of(task) for task in tasks[2:]} == {"queued"}
    shown = op.get(page_of("operatoraction", "change", action.pk)).content.decode()
    assert '<progress max="10" value="0"' in shown
    assert "manage.py ledgence_bulk" in shown
    apply()
    shown = op.get(page_of("operatoraction", "change", action.pk)).content.decode()
    assert "10 changed, 0 skipped, of 10" in shown and "<progress" not in shown
    assert {state_of(task) for task in tasks} == {"cancelled"}
    assert_audit_clean()


def test_a_few_are_named_one_by_one_and_acted_on_at_once(ledger: Ledger, op: Client) -> None:
    submit_tasks(FEW, queue="other")
    page = ask(op, "task", "cancel", **query_of())
    assert "All rows that match:" in page
    assert confirm(op, "task", "cancel", fields_of(page)) == "Cancel: changed 5 tasks, skipped 0."


def test_causes_are_counted_by_kind(ledger: Ledger, op: Client, tasks: list[UUID]) -> None:
    cancel(tasks[:3], using=USING)
    page = ask(op, "task", "requeue", q="queue:other")
    assert "3 of 12 tasks are eligible now." in page
    assert "9: is queued" in page
    assert "All rows that match: <strong>search: queue:other</strong>" in page


def test_the_list_offers_it_without_a_script(ledger: Ledger, op: Client, tasks: list[UUID]) -> None:
    page = op.get(page_of("task", **query_of())).content.decode()
    addresses = re.findall(r'href="([^"]*across=1[^"]*)"', page)
    assert len(addresses) == 8
    [address] = [one for one in addresses if "/cancel/" in one]
    shown = op.get(address.replace("&amp;", "&")).content.decode()
    assert "12 of 12 tasks are eligible now." in shown


@pytest.mark.parametrize("model", ["task", "deliveryintent", "lease"])
def test_it_is_refused_without_its_permission(model: str, ledger: Ledger, tasks: list[UUID]) -> None:
    client = make_client(*(f"view_{one}" for one in VIEWED), *set(OPERATIONS) - {"bulk_operatoraction"})
    listed = client.get(page_of(model)).content.decode()
    assert "across=1" not in listed and "select-across" not in re.sub(r"<input[^>]*select_across[^>]*>", "", listed)
    assert client.get(page_of(model, "cancel", across="1")).status_code == 403
    assert choose(client, model, "cancel", tasks[0], across=True).status_code == 403
    form = {"count": "12", "scope": "", "bound": str(max(tasks)), "action_id": str(uuid4()), "reason": REASON}
    assert client.post(page_of(model, "cancel"), form).status_code == 403
    assert {state_of(task) for task in tasks} == {"queued"}


def test_bulk_alone_allows_no_action(ledger: Ledger, tasks: list[UUID]) -> None:
    client = make_client("view_task", "bulk_operatoraction")
    form = {"count": "12", "scope": "", "bound": str(max(tasks)), "action_id": str(uuid4()), "reason": REASON}
    assert client.get(page_of("task", "cancel", across="1")).status_code == 403
    assert client.post(page_of("task", "cancel"), form).status_code == 403
    assert not OperatorAction.objects.filter(reason=REASON).exists()


def test_a_double_click_begins_one_action(ledger: Ledger, op: Client, tasks: list[UUID]) -> None:
    fields = fields_of(ask(op, "task", "cancel", **query_of()))
    assert post(op, "cancel", fields).status_code == 302
    assert post(op, "cancel", fields).status_code == 302
    apply()
    # And once more when nothing matches any longer.
    assert post(op, "cancel", fields).status_code == 302
    assert OperatorAction.objects.filter(reason=REASON).count() == 1
    assert OperatorActionTarget.objects.filter(action=UUID(fields["action_id"])).count() == 12


def test_rows_that_came_since_are_left_out_and_rows_that_left_are_not_asked(
    ledger: Ledger, op: Client, tasks: list[UUID]
) -> None:
    fields = fields_of(ask(op, "task", "cancel", **query_of()))
    later = submit_task(queue="other")
    cancel(tasks[:1], using=USING)
    post(op, "cancel", fields)
    apply()
    action = OperatorAction.objects.get(pk=fields["action_id"])
    assert (action.matched, action.changed) == (11, 11)
    assert state_of(later) == "queued"


def test_no_more_rows_than_were_confirmed(ledger: Ledger, op: Client, tasks: list[UUID]) -> None:
    cancel(tasks[6:], using=USING)
    fields = fields_of(ask(op, "task", "requeue", state="cancelled"))
    assert fields["count"] == "7"
    # Older rows that match since are found, and the number stays.
    cancel(tasks[:3], using=USING)
    post(op, "requeue", fields)
    apply()
    assert OperatorAction.objects.get(pk=fields["action_id"]).changed == 7


def test_a_row_that_moved_on_before_its_chunk_is_left(ledger: Ledger, op: Client, tasks: list[UUID]) -> None:
    fields = fields_of(ask(op, "deliveryintent", "set_priority", queue=query_of()["queue"]))
    post(op, "set_priority", fields, model="deliveryintent", priority="9")
    cancel(tasks[:1], using=USING)
    apply()
    action = OperatorAction.objects.get(pk=fields["action_id"])
    assert (action.changed, action.skipped, action.parameters) == (11, {"not_queued": 1}, {"priority": 9})
    assert set(DeliveryIntent.objects.filter(queue__name="other").values_list("priority", flat=True)) == {9}


def test_more_than_the_most_are_taken_from_the_top_and_that_is_told(ledger: Ledger, op: Client) -> None:
    tasks = submit_tasks(23, queue="other")
    page = ask(op, "task", "cancel", **query_of())
    assert "More than 20 match, and no action takes more" in page
    assert "20 of 20 tasks are eligible now." in page
    post(op, "cancel", fields_of(page))
    apply()
    assert sorted(task for task in tasks if state_of(task) == "queued") == tasks[:3]


def test_an_action_that_runs_is_stopped_on_its_page(ledger: Ledger, op: Client, tasks: list[UUID], monkeypatch) -> None:
    monkeypatch.setattr("ledgence.operations.bulk.CHUNK", 4)
    fields = fields_of(ask(op, "task", "cancel", **query_of()))
    post(op, "cancel", fields)
    Bulk(USING).turn()
    page = op.get(page_of("operatoraction", "change", fields["action_id"])).content.decode()
    assert f"/ledgence/operatoraction/stop/?ids={fields['action_id']}" in page
    stopping = op.get(page_of("operatoraction", "stop", ids=fields["action_id"])).content.decode()
    told = confirm(op, "operatoraction", "stop", fields_of(stopping))
    assert told == "Stop: changed 1 operator action, skipped 0."
    apply()
    page = op.get(page_of("operatoraction", "change", fields["action_id"])).content.decode()
    assert "4 of 12 rows" in page and "not reached" in page and "/stop/?ids=" not in page
    assert [state_of(task) for task in tasks].count("queued") == 8
    assert "4 of 12 rows" in op.get(page_of("operatoraction", state="stopped")).content.decode()


def test_a_viewer_cannot_stop_it(ledger: Ledger, op: Client, viewer: Client, tasks: list[UUID]) -> None:
    fields = fields_of(ask(op, "task", "cancel", **query_of()))
    post(op, "cancel", fields)
    page = viewer.get(page_of("operatoraction", "change", fields["action_id"])).content.decode()
    assert "/stop/" not in page
    form = {"targets": fields["action_id"], "action_id": str(uuid4()), "reason": REASON}
    assert viewer.post(page_of("operatoraction", "stop"), form).status_code == 403
    assert OperatorAction.objects.get(pk=fields["action_id"]).state == "running"


@pytest.mark.parametrize(
    "broken",
    [{"count": "0"}, {"count": "x"}, {"count": "-1"}, {"count": str(ROWS_MAX + 1)}, {"bound": ""}, {"bound": "x"}]
    + [{"scope": "state=nonsense"}, {"scope": "queue=x"}],
)
def test_what_no_page_would_send_is_refused(
    ledger: Ledger, op: Client, tasks: list[UUID], broken: dict[str, str]
) -> None:
    fields = fields_of(ask(op, "task", "cancel", **query_of()))
    assert post(op, "cancel", fields | broken).status_code == 400
    assert not OperatorAction.objects.filter(reason=REASON).exists()


def test_what_is_no_filter_of_the_list_narrows_nothing(ledger: Ledger, op: Client, tasks: list[UUID]) -> None:
    page = ask(op, "task", "cancel", data__contains="secret", p="3", o="1", **query_of())
    assert "state: queued, queue: other</strong>" in page
    assert "secret" not in page


def test_a_form_with_an_error_is_shown_again_as_it_was(ledger: Ledger, op: Client, tasks: list[UUID]) -> None:
    fields = fields_of(ask(op, "task", "cancel", **query_of()))
    page = op.post(page_of("task", "cancel"), fields | {"reason": "no"}).content.decode()
    assert "errorlist" in page and "12 of 12 tasks are eligible now." in page
    assert fields_of(page) == fields


def test_nothing_that_matches_is_told(ledger: Ledger, op: Client) -> None:
    response = op.get(page_of("task", "cancel", across="1", q=str(uuid4())), follow=True)
    assert "Nothing matches" in response.content.decode()


def test_what_is_never_so_many_is_not_begun_in_chunks(ledger: Ledger, op: Client) -> None:
    for number in range(FEW + 1):
        Queue.objects.create(tenant="t", namespace="n", name=f"q{number}")
    response = op.get(page_of("queue", "pause", across="1"), follow=True)
    assert "at most" in response.content.decode()
    form = {"count": "6", "scope": "", "bound": "99", "action_id": str(uuid4()), "reason": REASON}
    assert op.post(page_of("queue", "pause"), form).status_code == 400


class TestTyped:
    @pytest.fixture(autouse=True)
    def few_to_type(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ledgence.admin.forms.TYPED_ABOVE", 10)

    def test_the_number_of_many_rows_is_typed(self, ledger: Ledger, op: Client, tasks: list[UUID]) -> None:
        page = ask(op, "task", "cancel", **query_of())
        assert "Type their number, 12" in page
        for typed in ("", "11", "x", "1200"):
            again = post(op, "cancel", fields_of(page), typed=typed).content.decode()
            assert "errorlist" in again and fields_of(again) == fields_of(page)
        assert not OperatorAction.objects.filter(reason=REASON).exists()
        assert post(op, "cancel", fields_of(page), typed="12").status_code == 302

    def test_also_of_rows_that_are_named(self, ledger: Ledger, op: Client, tasks: list[UUID], monkeypatch) -> None:
        monkeypatch.setattr(selection, "TARGETS_MAX", 1000)
        response = op.get(page_of("task", "cancel", ids=",".join(map(str, tasks))))
        fields = fields_of(response.content.decode())
        assert "errorlist" in post(op, "cancel", fields).content.decode()
        assert {state_of(task) for task in tasks} == {"queued"}
        assert confirm(op, "task", "cancel", fields, typed="12") == "Cancel: changed 12 tasks, skipped 0."

    def test_of_a_few_it_is_not(self, ledger: Ledger, op: Client, tasks: list[UUID], monkeypatch) -> None:
        monkeypatch.setattr(selection, "TARGETS_MAX", 1000)
        page = op.get(page_of("task", "cancel", ids=",".join(map(str, tasks[:10])))).content.decode()
        assert 'name="typed"' not in page


def test_every_action_on_tasks_can_take_thousands() -> None:
    pages = [page for page in admin.site._registry.values() if isinstance(page, LedgerAdmin)]
    assert {one.kind for page in pages for one in page.confirmed if one.subject is TASKS} == set(PARTS)


def test_a_reason_of_any_shape_stays_text(ledger: Ledger, op: Client, tasks: list[UUID]) -> None:
    fields = fields_of(ask(op, "task", "cancel", **query_of()))
    hostile = "<script>alert(1)</script>"
    post(op, "cancel", fields | {"reason": hostile}, reason=hostile)
    page = op.get(page_of("operatoraction", "change", fields["action_id"])).content.decode()
    assert hostile not in page and "&lt;script&gt;alert(1)" in page
