"""The index of the worker sessions that are open, made while workers run."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("ledgence", "0008_session_extended_at")]

    operations = [
        AddIndexConcurrently(
            "workersession",
            models.Index(
                condition=models.Q(("closed_at__isnull", True)), fields=["expires_at"], name="ledgence_session_open"
            ),
        ),
    ]
