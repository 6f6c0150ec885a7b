"""Issuing and revoking by operators: recorded with who and why, once per action id, never with the secret."""

from typing import Any

import pytest

from ledgence.models import ApiToken, OperatorAction
from ledgence.operations.actions import Operator
from ledgence.operations.tokens import issue_by_operator, revoke_by_operator
from ledgence.tokens import authenticate
from ledgence_worker.errors import Conflict, InvalidInput
from tests.ledger.actors import USING, execute, operator
from tests.ledger.frozen import FrozenClock

pytestmark = pytest.mark.django_db


def issue_as(who: Operator, **changes: Any) -> tuple[ApiToken, str]:
    terms: dict[str, Any] = {"name": "ci", "roles": ["submit"], "tenant": "t", "namespace": "n", "using": USING}
    return issue_by_operator(who, **terms | changes)


def test_issuing_is_recorded_without_the_secret():
    who = operator("a new laptop")
    row, text = issue_as(who)
    assert authenticate(f"Bearer {text}", using=USING).token_id == row.pk
    [(kind, reason, name, target, answer)] = execute(
        "select a.kind, a.reason, a.actor_name, t.target, t.answer "
        "from ledgence_operatoraction a join ledgence_operatoractiontarget t on t.action_id = a.id"
    )
    assert (kind, reason, name) == ("issue_token", "a new laptop", who.name)
    assert (target, answer) == (row.public_id, "issued")


def test_an_action_id_issues_one_token():
    who = operator()
    row, _ = issue_as(who)
    with pytest.raises(Conflict, match=f"has issued token {row.public_id} before"):
        issue_as(who)
    assert ApiToken.objects.count() == 1
    assert issue_as(operator())[0].public_id != row.public_id


def test_what_is_refused_leaves_no_record_and_its_id_can_be_used():
    who = operator()
    with pytest.raises(InvalidInput):
        issue_as(who, roles=["admin"])
    assert not OperatorAction.objects.exists()
    issue_as(who)


@pytest.mark.parametrize("reason", ["", " ", "a\0"], ids=repr)
def test_nothing_is_issued_without_a_reason(reason):
    with pytest.raises(InvalidInput):
        issue_as(operator(reason))
    assert not ApiToken.objects.exists()


def test_revoking_answers_for_each_token_and_repeats_its_answers():
    first, second = issue_as(operator())[0], issue_as(operator())[0]
    who = operator()
    revoke_by_operator([second.pk], operator(), using=USING)
    expected = {first.public_id: "revoked", second.public_id: "already", "#0": "not_found"}
    assert revoke_by_operator([second.pk, first.pk, 0], who, using=USING) == expected
    assert revoke_by_operator([first.pk, 0, second.pk], who, using=USING) == expected
    assert ApiToken.objects.filter(revoked_at__isnull=False).count() == 2


def test_revoking_twice_keeps_the_first_moment(clock: FrozenClock):
    row, _ = issue_as(operator())
    first = clock.now
    assert revoke_by_operator([row.pk], operator(), using=USING) == {row.public_id: "revoked"}
    clock.advance(seconds=5)
    assert revoke_by_operator([row.pk], operator(), using=USING) == {row.public_id: "already"}
    assert ApiToken.objects.get().revoked_at == first


def test_an_action_that_names_nothing_is_refused():
    with pytest.raises(InvalidInput):
        revoke_by_operator([], operator(), using=USING)
