"""The row by which the task service judges housekeeping."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledgence", "0004_task_pages")]

    operations = [
        migrations.CreateModel(
            name="HousekeepingTurn",
            fields=[
                ("id", models.SmallIntegerField(primary_key=True, serialize=False)),
                ("turned_at", models.DateTimeField(verbose_name="turned at")),
            ],
            options={
                "verbose_name": "turn of housekeeping",
                "verbose_name_plural": "turns of housekeeping",
                "default_permissions": ("view",),
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="ledgence_housekeeping_one")
                ],
            },
        ),
    ]
