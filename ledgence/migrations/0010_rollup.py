"""The per-minute counts that the overview's charts are drawn from."""

import django.db.models.deletion
from django.db import migrations, models

import ledgence.models.columns


class Migration(migrations.Migration):
    dependencies = [("ledgence", "0009_open_sessions")]

    operations = [
        migrations.CreateModel(
            name="Rollup",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("minute", models.DateTimeField(verbose_name="minute")),
                ("claimed", models.PositiveIntegerField(default=0, verbose_name="claimed")),
                ("succeeded", models.PositiveIntegerField(default=0, verbose_name="succeeded")),
                ("failed", models.PositiveIntegerField(default=0, verbose_name="failed")),
                ("retried", models.PositiveIntegerField(default=0, verbose_name="retried")),
                ("cancelled", models.PositiveIntegerField(default=0, verbose_name="cancelled")),
                ("waits", ledgence.models.columns.ArrayColumn("integer", verbose_name="waits")),
                (
                    "queue",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rollups",
                        to="ledgence.queue",
                        verbose_name="queue",
                    ),
                ),
            ],
            options={
                "verbose_name": "roll-up",
                "verbose_name_plural": "roll-ups",
                "default_permissions": (),
                "indexes": [models.Index(fields=["minute"], name="ledgence_rollup_minute")],
            },
        ),
    ]
