"""The orders in which lists show ended tasks and operator actions; room for a copy's id among the answers."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # Concurrent builds cannot be part of a transaction; in return they take no lock that work would wait for.
    atomic = False

    dependencies = [("ledgence", "0003_attempt_consequence")]

    operations = [
        migrations.AlterField(
            model_name="operatoractiontarget",
            name="answer",
            field=models.CharField(max_length=64, verbose_name="answer"),
        ),
        RemoveIndexConcurrently(model_name="task", name="ledgence_task_ended"),
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(
                condition=models.Q(("outcome__in", ["failed", "cancelled"])),
                fields=["outcome", "-finished_at", "-id"],
                name="ledgence_task_ended",
            ),
        ),
        AddIndexConcurrently(
            model_name="operatoraction",
            index=models.Index(fields=["-acted_at", "-id"], name="ledgence_action_newest"),
        ),
    ]
