"""The groups that ledgence_groups makes: each may do what the table tells, and no page's action is in none of them."""

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.test import Client

from ledgence.admin.base import LedgerAdmin
from ledgence.management.commands.ledgence_groups import GROUPS
from tests.admin.conftest import OPERATIONS, Ledger
from tests.admin.test_actions import ROUTES, target_of
from tests.admin.test_pages import page_of
from tests.docs.reading import DOCS, table

pytestmark = pytest.mark.django_db
PAGE = DOCS / "operations.md"
VIEWER, OPERATOR, LEAD = GROUPS


def codenames_of(group: str) -> set[str]:
    return set(Group.objects.get(name=group).permissions.values_list("codename", flat=True))


def declared() -> set[str]:
    """Return every permission of Ledgence's models that is no right to see."""
    return {
        codename
        for model in apps.get_app_config("ledgence").get_models()
        for codename in [
            *(f"{action}_{model._meta.model_name}" for action in model._meta.default_permissions if action != "view"),
            *(codename for codename, _ in model._meta.permissions),
        ]
    }


def test_each_group_may_do_more_than_the_one_before(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("ledgence_groups")
    assert {one for one in codenames_of(VIEWER) if not one.startswith("view_")} == set()
    assert codenames_of(VIEWER) < codenames_of(OPERATOR) < codenames_of(LEAD)
    assert codenames_of(LEAD) - codenames_of(VIEWER) == {one for further in GROUPS.values() for one in further}
    views = Permission.objects.filter(content_type__app_label="ledgence", codename__startswith="view_")
    assert codenames_of(VIEWER) == set(views.values_list("codename", flat=True))
    assert capsys.readouterr().out.splitlines()[0] == f"{VIEWER}: {len(views)} permissions"


def test_a_repeat_adds_what_is_missing_and_takes_nothing_away() -> None:
    call_command("ledgence_groups", verbosity=0)
    group, own = Group.objects.get(name=OPERATOR), Permission.objects.get(codename="add_user")
    group.permissions.remove(Permission.objects.get(codename="move_task"))
    group.permissions.add(own)
    call_command("ledgence_groups", verbosity=0)
    assert {"move_task", "add_user"} <= codenames_of(OPERATOR)
    assert Group.objects.filter(name__startswith="Ledgence").count() == len(GROUPS)


def test_before_migrate_it_says_what_to_do() -> None:
    Permission.objects.filter(content_type__app_label="ledgence").delete()
    with pytest.raises(CommandError, match="Run manage.py migrate"):
        call_command("ledgence_groups")
    assert not Group.objects.exists()


def test_the_table_of_permissions_is_that_of_the_code() -> None:
    rows = table(PAGE, "Permission")
    told = {
        row["Permission"]: {name for name in GROUPS if row[name.removeprefix("Ledgence ")] == "yes"} for row in rows
    }
    expected: dict[str, set[str]] = {"view_…": set(GROUPS)}
    held: set[str] = set()
    for codename in declared():
        expected[codename] = set()
    for name, further in GROUPS.items():
        held |= set(further)
        for codename in held:
            expected[codename].add(name)
    assert told == expected


def test_every_action_declares_a_permission_that_is_in_the_table() -> None:
    actions = {
        (str(action.label), action.permission)
        for page in admin.site._registry.values()
        if isinstance(page, LedgerAdmin)
        for action in page.confirmed
    }
    told = {row["Action"]: row["Needs"] for row in table(PAGE, "Action")}
    assert {label for label, _ in actions} == set(told)
    assert set(told.values()) <= {row["Permission"] for row in table(PAGE, "Permission")}
    for _, permission in actions:
        assert hasattr(LedgerAdmin, f"has_{permission}_permission")


def test_every_operation_of_the_tests_is_declared() -> None:
    assert set(OPERATIONS) == declared()


@pytest.mark.parametrize("name", GROUPS)
def test_a_member_opens_what_the_group_may(name: str, ledger: Ledger) -> None:
    call_command("ledgence_groups", verbosity=0)
    user = User.objects.create_user("member", is_staff=True)
    user.groups.add(Group.objects.get(name=name))
    client = Client()
    client.force_login(user)
    needs = {row["Action"]: row["Needs"] for row in table(PAGE, "Action")}
    labels = {
        (page.opts.model_name, action.name): str(action.label)
        for page in admin.site._registry.values()
        if isinstance(page, LedgerAdmin)
        for action in page.confirmed
    }
    allowed = codenames_of(name)
    for model, action in ROUTES:
        assert client.get(page_of(model)).status_code == 200
        expected = 200 if needs[labels[model, action]] in allowed else 403
        assert client.get(page_of(model, action, ids=str(target_of(model, ledger)))).status_code == expected
