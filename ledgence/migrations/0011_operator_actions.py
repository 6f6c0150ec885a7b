"""What operator actions count and were asked for, pauses with an end, draining sessions, and permissions for each."""

from django.db import migrations, models

import ledgence.models.columns


class Migration(migrations.Migration):
    dependencies = [
        ("ledgence", "0010_rollup"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="operatoraction",
            options={
                "default_permissions": ("view",),
                "permissions": [("bulk_operatoraction", "Can act on all rows that match a filter")],
                "verbose_name": "operator action",
                "verbose_name_plural": "operator actions",
            },
        ),
        migrations.AlterModelOptions(
            name="task",
            options={
                "default_permissions": ("view",),
                "permissions": [
                    ("requeue_task", "Can requeue tasks"),
                    ("cancel_task", "Can cancel tasks"),
                    ("run_task", "Can run queued tasks now"),
                    ("move_task", "Can move queued tasks to another queue"),
                    ("prioritize_task", "Can set the priority of queued tasks"),
                ],
                "verbose_name": "task",
                "verbose_name_plural": "tasks",
            },
        ),
        migrations.AlterModelOptions(
            name="workersession",
            options={
                "default_permissions": ("view",),
                "permissions": [("drain_workersession", "Can drain workers")],
                "verbose_name": "worker session",
                "verbose_name_plural": "worker sessions",
            },
        ),
        migrations.AddField(
            model_name="operatoraction",
            name="changed",
            field=models.PositiveIntegerField(db_default=0, default=0, verbose_name="changed"),
        ),
        migrations.AddField(
            model_name="operatoraction",
            name="finished_at",
            field=models.DateTimeField(null=True, verbose_name="finished at"),
        ),
        migrations.AddField(
            model_name="operatoraction",
            name="matched",
            field=models.PositiveIntegerField(db_default=0, default=0, verbose_name="matched"),
        ),
        migrations.AddField(
            model_name="operatoraction",
            name="parameters",
            field=ledgence.models.columns.JsonColumn(null=True, verbose_name="parameters"),
        ),
        migrations.AddField(
            model_name="operatoraction",
            name="scope",
            field=ledgence.models.columns.JsonColumn(null=True, verbose_name="scope"),
        ),
        migrations.AddField(
            model_name="operatoraction",
            name="skipped",
            field=ledgence.models.columns.JsonColumn(null=True, verbose_name="skipped"),
        ),
        migrations.AddField(
            model_name="operatoraction",
            name="state",
            field=models.CharField(
                choices=[("running", "running"), ("done", "done"), ("stopped", "stopped")],
                db_default="done",
                default="done",
                max_length=10,
                verbose_name="state",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="paused_until",
            field=models.DateTimeField(blank=True, null=True, verbose_name="paused until"),
        ),
        migrations.AddField(
            model_name="queue",
            name="revision",
            field=models.PositiveIntegerField(db_default=0, default=0, verbose_name="revision"),
        ),
        migrations.AddField(
            model_name="workersession",
            name="drain_requested_at",
            field=models.DateTimeField(null=True, verbose_name="drain requested at"),
        ),
        migrations.AlterField(
            model_name="deliveryevent",
            name="kind",
            field=models.CharField(
                choices=[
                    ("refused", "refused"),
                    ("failed", "failed"),
                    ("uncertain", "uncertain"),
                    ("repair", "repair"),
                    ("deferred", "deferred"),
                    ("republish", "republish"),
                    ("moved", "moved"),
                ],
                max_length=10,
                verbose_name="kind",
            ),
        ),
        migrations.AlterField(
            model_name="operatoraction",
            name="kind",
            field=models.CharField(
                choices=[
                    ("requeue", "requeue"),
                    ("copy", "requeue as copy"),
                    ("cancel", "cancel"),
                    ("republish", "republish"),
                    ("force_expire", "force expire"),
                    ("run_now", "run now"),
                    ("move", "move to queue"),
                    ("set_priority", "set priority"),
                    ("pause", "pause"),
                    ("resume", "resume"),
                    ("drain", "drain"),
                    ("stop", "stop action"),
                    ("route", "change route"),
                    ("issue_token", "issue token"),
                    ("revoke_token", "revoke token"),
                ],
                max_length=12,
                verbose_name="kind",
            ),
        ),
    ]
