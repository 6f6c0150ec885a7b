"""When a worker was last heard of: what tells a silent one from a live one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledgence", "0007_publication_index")]

    operations = [
        migrations.AddField(
            "workersession", "extended_at", models.DateTimeField(null=True, verbose_name="extended at")
        ),
    ]
