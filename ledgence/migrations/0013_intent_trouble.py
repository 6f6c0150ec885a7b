"""The index of intents whose announcements go wrong, made while publishers run."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("ledgence", "0012_running_actions")]

    operations = [
        AddIndexConcurrently(
            "deliveryintent",
            models.Index(
                condition=models.Q(("refusals__gte", 1), ("publications__gte", 2), _connector="OR"),
                fields=["task"],
                name="ledgence_intent_trouble",
            ),
        ),
    ]
