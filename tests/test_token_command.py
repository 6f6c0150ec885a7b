"""manage.py ledgence_token: the token alone on the standard output, and a record of who issued and revoked it."""

import os
import pwd
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError

from ledgence import tokens
from ledgence.models import ApiToken, OperatorAction, Role
from ledgence.token_cache import TokenCache
from ledgence.tokens import authenticate
from ledgence_worker.errors import Unauthenticated
from tests.ledger.actors import USING, execute
from tests.terminal import Terminal

pytestmark = pytest.mark.django_db


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal("ledgence_token", capsys)


def test_the_token_is_all_of_the_standard_output(command: Terminal) -> None:
    out = command("issue", "ci", "--role", "submit", "--role", "work", "--queue", "a", "--queue", "b")
    assert re.fullmatch(r"ldg_[0-9a-f]{16}_[\w-]{43}\n", out)
    scope = authenticate(f"Bearer {out.strip()}", using=USING)
    assert (scope.tenant, scope.namespace, set(scope.queues)) == ("default", "default", {"a", "b"})
    assert (scope.name, set(scope.roles)) == ("ci", {Role.SUBMIT, Role.WORK})
    assert out.strip().split("_", 2)[2] not in command.err
    assert f"Issued ci ({ApiToken.objects.get().public_id}), which never expires." in command.err


def test_terms_are_taken_from_the_options(command: Terminal) -> None:
    command("issue", "a", "--role", "operate", "--tenant", "t", "--namespace", "n", "--expires-in", "1.5")
    token = ApiToken.objects.get()
    assert (token.tenant, token.namespace, token.roles) == ("t", "n", ["operate"])
    assert token.expires_at is not None
    assert abs(token.expires_at - token.created_at - timedelta(days=1.5)) < timedelta(minutes=1)
    command("issue", "b", "--role", "work", "--expires-at", "2999-01-02T03:04:05+01:00")
    assert ApiToken.objects.get(name="b").expires_at == datetime(2999, 1, 2, 2, 4, 5, tzinfo=UTC)


def test_issuing_and_revoking_leave_a_record(command: Terminal) -> None:
    command("issue", "ci", "--role", "work", "--reason", "the new host")
    public_id = ApiToken.objects.get().public_id
    command("revoke", public_id)
    account = pwd.getpwuid(os.geteuid()).pw_name
    assert sorted(OperatorAction.objects.values_list("kind", "actor_name", "reason", "targets__target")) == [
        ("issue_token", account, "the new host", public_id),
        ("revoke_token", account, "by manage.py ledgence_token", public_id),
    ]


def test_a_revoked_token_is_refused(command: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    text = command("issue", "ci", "--role", "work").strip()
    public_id = text.split("_")[1]
    assert command("revoke", public_id) == ""
    assert f"{public_id}: revoked." in command.err
    monkeypatch.setattr(tokens, "_valid", TokenCache())
    with pytest.raises(Unauthenticated):
        authenticate(f"Bearer {text}", using=USING)
    command("revoke", public_id)
    assert f"{public_id}: was revoked before." in command.err


def test_the_list_shows_each_token_and_no_secret(command: Terminal) -> None:
    assert len(command("list").splitlines()) == 1
    text = command("issue", "ci", "--role", "work", "--role", "submit").strip()
    command("issue", "old", "--role", "operate", "--queue", "q")
    execute("update ledgence_apitoken set created_at = '2000-01-01', expires_at = '2000-01-02' where name = 'old'")
    out = command("list")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [row[1:6] + row[-1:] for row in rows] == [
        ["expired", "operate", "default", "default", "q", "old"],
        ["active", "submit,work", "default", "default", "all", "ci"],
    ]
    assert text.split("_")[1] in out and text.split("_", 2)[2] not in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "required: action"),
        (["issue", "ci"], "--role"),
        (["issue", "ci", "--role", "admin"], "invalid choice"),
        (["issue", "", "--role", "work"], "name must be 1-128 bytes"),
        (["issue", "ci", "--role", "work", "--tenant", ""], "tenant must be 1-128 bytes"),
        (["issue", "ci", "--role", "work", "--expires-in", "nan"], "--expires-in"),
        (["issue", "ci", "--role", "work", "--expires-in", "1e12"], "--expires-in"),
        (["issue", "ci", "--role", "work", "--expires-in", "0"], "not in the future"),
        (["issue", "ci", "--role", "work", "--expires-at", "soon"], "--expires-at"),
        (["issue", "ci", "--role", "work", "--expires-at", "2999-01-01"], "no time zone"),
        (["issue", "ci", "--role", "work", "--expires-in", "1", "--expires-at", "2999-01-01"], "not allowed with"),
        (["issue", "ci", "--role", "work", "--reason", " "], "a reason is required"),
        (["revoke", "0" * 16], "no API token"),
        (["revoke", "x" * 1000], "no API token"),
    ],
)
def test_what_cannot_be_done_is_told_and_leaves_nothing(arguments: list[str], told: str, command: Terminal) -> None:
    with pytest.raises(CommandError, match=re.escape(told)):
        command(*arguments)
    assert not ApiToken.objects.exists() and not OperatorAction.objects.exists()
