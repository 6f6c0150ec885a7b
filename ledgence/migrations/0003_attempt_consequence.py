from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledgence", "0002_storage_and_view")]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="consequence",
            field=models.CharField(max_length=9, null=True, verbose_name="consequence"),
        ),
    ]
