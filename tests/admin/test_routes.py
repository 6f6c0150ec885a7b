"""Every address of the ledger's admin, as the URLconf has them, for each kind of visitor and rows of each tenant."""

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client
from django.urls import get_resolver

from ledgence.management.commands.ledgence_groups import GROUPS
from ledgence.models import ApiToken, Program, Queue, Task, WorkerSession
from tests.admin.conftest import Ledger, make_client
from tests.admin.test_actions import PERMISSIONS, target_of
from tests.admin.test_pages import page_of, pages_of

pytestmark = pytest.mark.django_db

VIEWER, OPERATOR, LEAD = GROUPS
#: Pages that show a row, or rows.
VIEWS = ("changelist", "change", "history")
ROUTES = sorted(
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


def expected(visitor: str, model: str, page: str) -> int:
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
    for model, page in ROUTES:
        of_row = page in ("change", "history", "delete")
        query = {"ids": str(target_of(model, ledger))} if page in PERMISSIONS else {}
        address = page_of(model, page, *([rows[model]] if of_row else []), **query)
        told[model, page] = client.get(address).status_code
    assert told == {(model, page): expected(visitor, model, page) for model, page in ROUTES}
