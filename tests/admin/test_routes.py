"""Every address of the ledger's admin, as the URLconf has them: for each kind of visitor, tenant and permission."""

from uuid import uuid4

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client
from django.urls import get_resolver

from ledgence.management.commands.ledgence_groups import GROUPS
from ledgence.models import ApiToken, OperatorAction, Program, Queue, Task, WorkerSession
from tests.admin.conftest import Ledger, make_client
from tests.admin.test_actions import CHOICES, PERMISSIONS, REASON, ROUTES, ask, choose, target_of
from tests.admin.test_pages import page_of, pages_of

pytestmark = pytest.mark.django_db

VIEWER, OPERATOR, LEAD = GROUPS
#: Pages that show a row, or rows.
VIEWS = ("changelist", "change", "history")
ADDRESSES = sorted(
    (model, page)
    for name in get_resolver("ledgence_project.urls").namespace_dict["admin"][1].reverse_dict
    if isinstance(name, str) and name.startswith("ledgence_")
    for _, model, page in [name.split("_", 2)]
)


def member_of(group: str) -> Client:
    call_command("ledgence_groups", verbosity=0)
    user = User.objects.create_user("member", is_staff=True)
    user.groups.add(Group.objects.get(name=group))
    return signed_in(user)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


VISITORS = {
    "nobody": Client,
    "customer": lambda: signed_in(User.objects.create_user("customer")),
    "staff": make_client,
    VIEWER: lambda: member_of(VIEWER),
    OPERATOR: lambda: member_of(OPERATOR),
    LEAD: lambda: member_of(LEAD),
    "superuser": lambda: signed_in(User.objects.create_superuser("root")),
}


def status_of(visitor: str, model: str, page: str) -> int:
    """Return the status of an address, from who the visitor is and what the groups are for."""
    if visitor in ("nobody", "customer"):
        return 302
    if page == "overview":
        # It shows to each what the permissions allow, if only its frame.
        return 200
    if page == "delete" or (page == "add" and model != "apitoken") or visitor == "staff":
        return 403
    if visitor == "superuser" or page in VIEWS:
        return 200
    granted: set[str] = set()
    for group, codenames in GROUPS.items():
        granted |= set(codenames)
        if group == visitor:
            break
    return 200 if PERMISSIONS.get(page, "add_apitoken") in granted else 403


@pytest.mark.parametrize("tenant", ["default", "another"])
@pytest.mark.parametrize("visitor", VISITORS)
def test_each_address_answers_by_the_visitors_rights_and_not_by_the_tenant(
    visitor: str, tenant: str, ledger: Ledger
) -> None:
    for scoped in (Task, Queue, Program, WorkerSession, ApiToken):
        scoped._default_manager.update(tenant=tenant)
    rows, client, told = dict(reversed(pages_of(ledger))), VISITORS[visitor](), {}
    for model, page in ADDRESSES:
        of_row = page in ("change", "history", "delete")
        query = {"ids": str(target_of(model, ledger))} if page in PERMISSIONS else {}
        address = page_of(model, page, *([rows[model]] if of_row else []), **query)
        told[model, page] = client.get(address).status_code
    assert told == {(model, page): status_of(visitor, model, page) for model, page in ADDRESSES}


# Actions: each with its own permission.


@pytest.mark.parametrize(("model", "action"), ROUTES)
@pytest.mark.parametrize("granted", [None, *sorted(set(PERMISSIONS.values()))])
def test_a_route_opens_with_its_own_permission_and_no_other(
    model: str, action: str, granted: str | None, ledger: Ledger
) -> None:
    client = make_client(f"view_{model}", *([granted] if granted else []))
    target = target_of(model, ledger)
    expected = 200 if granted == PERMISSIONS[action] else 403
    assert client.get(page_of(model, action, ids=str(target))).status_code == expected
    form = {"targets": str(target), "action_id": str(uuid4()), "reason": REASON, "back": "?"} | CHOICES
    assert client.post(page_of(model, action), form).status_code == (302 if expected == 200 else 403)
    assert OperatorAction.objects.filter(reason=REASON).exists() == (expected == 200)


@pytest.mark.parametrize(("model", "action"), ROUTES)
def test_a_route_is_closed_to_those_who_may_not_see_its_list(model: str, action: str, ledger: Ledger) -> None:
    client = make_client(PERMISSIONS[action])
    target = target_of(model, ledger)
    assert client.get(page_of(model, action, ids=str(target))).status_code == 403


@pytest.mark.parametrize(("model", "action"), ROUTES)
def test_a_list_neither_offers_nor_takes_what_a_viewer_may_not_do(
    model: str, action: str, ledger: Ledger, viewer: Client
) -> None:
    target = target_of(model, ledger)
    assert f'value="{action}"' not in viewer.get(page_of(model)).content.decode()
    response = choose(viewer, model, action, target)
    assert "ledgence-confirmation" not in response.content.decode()


@pytest.mark.parametrize(("model", "action"), ROUTES)
def test_a_route_refuses_a_form_without_its_token(model: str, action: str, ledger: Ledger, op: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = op.cookies
    form = {"targets": str(ledger.queued), "action_id": str(uuid4()), "reason": REASON}
    assert strict.post(page_of(model, action), form).status_code == 403


@pytest.mark.parametrize(("model", "action"), ROUTES)
def test_looking_at_a_confirmation_changes_nothing(model: str, action: str, ledger: Ledger, op: Client) -> None:
    before = OperatorAction.objects.count()
    ask(op, model, action, target_of(model, ledger))
    assert OperatorAction.objects.count() == before
