"""The indexes of actions that are applied in chunks, made while the tables are in use."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # Each statement commits for itself: none holds a lock while it reads the table.
    atomic = False

    dependencies = [("ledgence", "0011_operator_actions")]

    operations = [
        AddIndexConcurrently(
            "operatoraction",
            models.Index(
                condition=models.Q(("state", "running")), fields=["acted_at", "id"], name="ledgence_action_running"
            ),
        ),
        AddIndexConcurrently(
            "operatoractiontarget",
            models.Index(condition=models.Q(("answer", "")), fields=["action", "id"], name="ledgence_action_pending"),
        ),
    ]
