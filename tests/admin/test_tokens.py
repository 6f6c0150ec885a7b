"""Tokens on the pages: issued by a form, shown in its answer alone, filtered, revoked, and changed by nobody."""

import re
from uuid import uuid4

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from ledgence import tokens
from ledgence.models import ApiToken, OperatorAction, OperatorActionTarget, Role
from ledgence.token_cache import TokenCache
from ledgence.tokens import authenticate, issue
from ledgence_worker.errors import Unauthenticated
from tests.admin.conftest import OPERATIONS, VIEWED, make_client
from tests.admin.test_actions import REASON, carry_out
from tests.admin.test_pages import page_of, shown
from tests.ledger.actors import USING, execute
from tests.ledger.tokens import revoke

pytestmark = pytest.mark.django_db

TEXT = re.compile(r"ldg_[0-9a-f]{16}_[\w-]{43}")
ADD = page_of("apitoken", "add")


def terms(**changes: object) -> dict[str, object]:
    form = {
        "action_id": str(uuid4()),
        "name": "laptop",
        "roles": ["submit", "work"],
        "tenant": "default",
        "namespace": "default",
        "queues": "",
        "reason": REASON,
    }
    return form | changes


def make(name: str = "ci", **changes: object) -> ApiToken:
    options: dict = {"roles": ["work"], "tenant": "default", "namespace": "default", "using": USING}
    return issue(name=name, **options | changes)[0]


def names_on(client: Client, **query: str) -> list[str]:
    response = client.get(page_of("apitoken", **query))
    assert response.status_code == 200
    return [token.name for token in response.context["cl"].result_list]


def test_a_token_is_issued_and_its_text_is_shown_in_the_answer(op: Client) -> None:
    page = shown(op, ADD)
    assert 'value="default"' in page
    [action_id] = re.findall(r'name="action_id" value="([^"]+)"', page)
    form = terms(action_id=action_id, queues=" mail\r\n\r\nreports ", expires_at="2999-01-02T03:04")
    response = op.post(ADD, form)
    assert response.status_code == 200
    [text] = TEXT.findall(response.content.decode())
    scope = authenticate(f"Bearer {text}", using=USING)
    assert (scope.name, set(scope.roles), set(scope.queues)) == (
        "laptop",
        {Role.SUBMIT, Role.WORK},
        {"mail", "reports"},
    )
    token = ApiToken.objects.get()
    assert token.expires_at is not None
    assert token.expires_at.isoformat() == "2999-01-02T03:04:00+00:00"
    action = OperatorAction.objects.get(pk=action_id)
    assert (action.kind, action.reason, action.actor_id) == ("issue_token", REASON, int(op.session["_auth_user_id"]))
    assert list(action.targets.values_list("target", "answer")) == [(token.public_id, "issued")]


def test_no_cache_and_no_message_keeps_the_text(op: Client) -> None:
    response = op.post(ADD, terms())
    [text] = TEXT.findall(response.content.decode())
    assert {"no-store", "private"} <= set(response["Cache-Control"].split(", "))
    assert text not in str(response.headers) + str(response.cookies) + str(op.cookies)
    assert "messages" not in response.cookies
    assert not any(text in str(session.get_decoded()) for session in Session.objects.all())


def test_the_secret_stands_on_no_other_page_and_in_no_table(op: Client) -> None:
    [text] = TEXT.findall(op.post(ADD, terms()).content.decode())
    secret = text.split("_", 2)[2]
    token, action = ApiToken.objects.get(), OperatorAction.objects.get()
    pages = [
        page_of("apitoken"),
        page_of("apitoken", "change", token.pk),
        page_of("apitoken", "history", token.pk),
        page_of("operatoraction"),
        page_of("operatoraction", "change", action.pk),
        ADD,
    ]
    for page in pages:
        body = shown(op, page)
        assert secret not in body
        assert bytes(token.digest).hex() not in body
        assert str(bytes(token.digest)) not in body
    for [table] in execute("select tablename from pg_tables where schemaname = 'public'"):
        rows = execute(f'select to_jsonb(t)::text from "{table}" t')  # noqa: S608 - the catalogue's own names
        assert not any(secret in row or secret.encode().hex() in row for [row] in rows), table


def test_a_form_that_is_sent_twice_issues_once(op: Client) -> None:
    form = terms()
    op.post(ADD, form)
    again = op.post(ADD, form).content.decode()
    assert not TEXT.search(again)
    assert f"has issued token {ApiToken.objects.get().public_id} before" in again


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": ""}, "This field is required"),
        ({"name": "ä" * 100}, "name must be 1-128 bytes"),
        ({"name": "a\u202eb"}, "must be printable text"),
        ({"roles": []}, "This field is required"),
        ({"roles": ["admin"]}, "Select a valid choice"),
        ({"tenant": ""}, "This field is required"),
        ({"queues": "\n".join(f"q{n}" for n in range(101))}, "at most 100 queues"),
        ({"queues": "a\tb"}, "must be printable text"),
        ({"expires_at": "2001-01-01T00:00"}, "not in the future"),
        ({"expires_at": "tomorrow"}, "Enter a valid date/time"),
        ({"expires_at": "9999-12-31T23:59:59.999999-00:01"}, "after the year 9998"),
        ({"reason": "no"}, "at least 5 characters"),
        ({"action_id": "x"}, "Enter a valid UUID"),
    ],
)
def test_bad_terms_are_told_and_nothing_is_issued(change: dict[str, object], told: str, op: Client) -> None:
    response = op.post(ADD, terms(**change))
    assert response.status_code == 200
    assert told in response.content.decode()
    assert not ApiToken.objects.exists() and not OperatorAction.objects.exists()


@pytest.mark.parametrize("granted", [None, *(name for name in OPERATIONS if name != "add_apitoken")])
def test_the_form_is_closed_to_those_who_may_not_issue(granted: str | None) -> None:
    client = make_client(*(f"view_{model}" for model in VIEWED), *([granted] if granted else []))
    assert client.get(ADD).status_code == 403
    assert client.post(ADD, terms()).status_code == 403
    assert ADD not in shown(client, page_of("apitoken"))
    assert not ApiToken.objects.exists()


def test_who_may_only_issue_sees_no_list() -> None:
    client = make_client("add_apitoken")
    page = client.post(ADD, terms()).content.decode()
    assert TEXT.search(page)
    assert page_of("apitoken", "change", ApiToken.objects.get().pk) not in page
    assert client.get(page_of("apitoken")).status_code == 403


def test_the_form_refuses_to_work_without_its_token(op: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = op.cookies
    assert strict.post(ADD, terms()).status_code == 403
    assert not ApiToken.objects.exists()


def test_revoking_is_confirmed_recorded_and_final(op: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    [text] = TEXT.findall(op.post(ADD, terms()).content.decode())
    token = ApiToken.objects.get()
    assert carry_out(op, "apitoken", "revoke", token.pk) == "Revoke: changed 1 API token, skipped 0."
    target = OperatorActionTarget.objects.select_related("action").get(answer="revoked")
    assert (target.target, target.action.kind, target.action.reason) == (token.public_id, "revoke_token", REASON)
    monkeypatch.setattr(tokens, "_valid", TokenCache())
    with pytest.raises(Unauthenticated):
        authenticate(f"Bearer {text}", using=USING)
    told = carry_out(op, "apitoken", "revoke", token.pk)
    assert told == "Revoke: changed 0 API tokens, skipped 1 (1 revoked before)."


def test_the_record_and_the_token_lead_to_each_other(op: Client) -> None:
    op.post(ADD, terms())
    token, action = ApiToken.objects.get(), OperatorAction.objects.get()
    assert page_of("operatoraction", "change", action.pk) in shown(op, page_of("apitoken", "change", token.pk))
    assert page_of("apitoken", "change", token.pk) in shown(op, page_of("operatoraction", "change", action.pk))
    found = op.get(page_of("operatoraction", q=token.public_id)).context["cl"].result_list
    assert [row.pk for row in found] == [action.pk]


def test_filters_and_search_find_tokens(op: Client) -> None:
    make("worker")
    both = make("both", roles=["submit", "work"])
    over = make("over", roles=["operate"])
    execute(
        "update ledgence_apitoken set created_at = now() - interval '1 h', expires_at = now() where id = %s", [over.pk]
    )
    revoke(make("gone").pk)
    assert names_on(op) == ["gone", "over", "both", "worker"]
    assert names_on(op, state="active") == ["both", "worker"]
    assert names_on(op, state="expired") == ["over"]
    assert names_on(op, state="revoked") == ["gone"]
    assert names_on(op, role="work") == ["gone", "both", "worker"]
    assert names_on(op, role="submit", state="active") == ["both"]
    assert names_on(op, q=both.public_id) == ["both"]
    assert names_on(op, q="worker") == ["worker"]
    assert names_on(op, q="work") == []
    assert op.get(page_of("apitoken", role="admin")).status_code == 302
    assert op.get(page_of("apitoken", digest="x")).status_code == 400


def test_nobody_changes_or_deletes_a_token(op: Client, admin_client: Client) -> None:
    token = make()
    for client in (op, admin_client):
        page = shown(client, page_of("apitoken", "change", token.pk))
        assert 'name="_save"' not in page and 'name="_saveasnew"' not in page
        for trick in ({}, {"_saveasnew": "1"}):
            form = {"name": "other"} | trick
            assert client.post(page_of("apitoken", "change", token.pk), form).status_code == 403
        assert client.post(page_of("apitoken", "delete", token.pk), {"post": "yes"}).status_code == 403
    assert ApiToken.objects.get().name == "ci"
