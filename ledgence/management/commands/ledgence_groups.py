"""The groups of operators, made where their permissions are: in the project's own accounts."""

from typing import Any

from django.contrib.auth.models import Group, Permission
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

#: What each group may do beside what the one before may. A viewer sees every page, and changes nothing.
GROUPS: dict[str, tuple[str, ...]] = {
    "Ledgence viewer": (),
    "Ledgence operator": (
        "requeue_task",
        "cancel_task",
        "run_task",
        "move_task",
        "prioritize_task",
        "republish_deliveryintent",
        "pause_queue",
    ),
    "Ledgence incident lead": (
        "bulk_operatoraction",
        "drain_workersession",
        "expire_lease",
        "revoke_apitoken",
    ),
}


class Command(BaseCommand):
    help = (
        f"Make the groups {', '.join(GROUPS)}, or add to them the permissions that they lack. It takes none away, and "
        "puts nobody into a group."
    )

    def handle(self, **options: Any) -> None:
        own = Permission.objects.filter(content_type__app_label="ledgence")
        permissions = {permission.codename: permission for permission in own}
        granted = {codename for codename in permissions if codename.startswith("view_")}
        wanted = granted.union(*GROUPS.values())
        if missing := wanted - permissions.keys() or (not granted and wanted):
            raise CommandError(f"Permissions are missing: {', '.join(sorted(missing))}. Run manage.py migrate first.")
        with transaction.atomic():
            for name, further in GROUPS.items():
                granted = granted.union(further)
                group, _ = Group.objects.get_or_create(name=name)
                group.permissions.add(*(permissions[codename] for codename in granted))
                self.stdout.write(f"{name}: {len(granted)} permissions")
