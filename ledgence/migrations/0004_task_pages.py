"""Indexes for pages of tasks, made while the tables are in use; the one that is replaced goes last."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # Each statement commits for itself: CREATE INDEX CONCURRENTLY waits for transactions, and holds none up.
    atomic = False

    dependencies = [("ledgence", "0003_api_token")]

    operations = [
        AddIndexConcurrently("task", models.Index(fields=["queue", "id"], name="ledgence_task_queue")),
        AddIndexConcurrently(
            "task",
            models.Index(
                condition=models.Q(("correlation_key__isnull", False)),
                fields=["correlation_key", "queue", "id"],
                name="ledgence_task_correlated",
            ),
        ),
        RemoveIndexConcurrently("task", "ledgence_task_correlation"),
    ]
