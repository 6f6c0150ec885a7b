"""The publisher's index and the rule of publications, made while the table is in use."""

from django.contrib.postgres.operations import AddConstraintNotValid, AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models


class Migration(migrations.Migration):
    # Each statement commits for itself: none holds a lock while it reads the table.
    atomic = False

    dependencies = [("ledgence", "0006_delivery")]

    operations = [
        AddIndexConcurrently(
            "deliveryintent",
            models.Index(
                condition=models.Q(("next_publish_at__isnull", False)),
                fields=["queue", "next_publish_at", "task"],
                name="ledgence_intent_publish",
            ),
        ),
        AddConstraintNotValid(
            "deliveryintent",
            models.CheckConstraint(
                condition=models.Q(("next_publish_at__isnull", True), ("publication_id__isnull", True))
                | models.Q(("next_publish_at__isnull", False), ("publication_id__isnull", False)),
                name="ledgence_intent_publication",
            ),
        ),
        ValidateConstraint("deliveryintent", "ledgence_intent_publication"),
    ]
