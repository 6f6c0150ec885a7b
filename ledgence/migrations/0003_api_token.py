"""API tokens, and the operator actions that issue and revoke them."""

import django.db.models.functions.text
import django.db.models.lookups
from django.db import migrations, models

import ledgence.models.columns


class Migration(migrations.Migration):
    dependencies = [
        ("ledgence", "0002_storage_and_view"),
    ]

    operations = [
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
                    ("pause", "pause"),
                    ("resume", "resume"),
                    ("issue_token", "issue token"),
                    ("revoke_token", "revoke token"),
                ],
                max_length=12,
                verbose_name="kind",
            ),
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                ("public_id", models.CharField(editable=False, max_length=16, verbose_name="public id")),
                ("digest", models.BinaryField()),
                ("name", models.CharField(max_length=128, verbose_name="name")),
                ("roles", ledgence.models.columns.ArrayColumn("text", verbose_name="roles")),
                ("tenant", models.CharField(max_length=128, verbose_name="tenant")),
                ("namespace", models.CharField(max_length=128, verbose_name="namespace")),
                ("queues", ledgence.models.columns.ArrayColumn("text", verbose_name="queues")),
                ("created_at", models.DateTimeField(verbose_name="created at")),
                ("expires_at", models.DateTimeField(null=True, verbose_name="expires at")),
                ("revoked_at", models.DateTimeField(null=True, verbose_name="revoked at")),
                ("last_used_at", models.DateTimeField(null=True, verbose_name="last used at")),
            ],
            options={
                "verbose_name": "API token",
                "verbose_name_plural": "API tokens",
                "permissions": [("revoke_apitoken", "Can revoke API tokens")],
                "default_permissions": ("add", "view"),
                "constraints": [
                    models.UniqueConstraint(fields=("public_id",), name="ledgence_token_public_id"),
                    models.CheckConstraint(
                        condition=django.db.models.lookups.Exact(django.db.models.functions.text.Length("digest"), 32),
                        name="ledgence_token_digest",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("roles__within", ["submit", "work", "operate"]), models.Q(("roles", []), _negated=True)
                        ),
                        name="ledgence_token_roles",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("expires_at__isnull", True), ("expires_at__gt", models.F("created_at")), _connector="OR"
                        ),
                        name="ledgence_token_expiry",
                    ),
                ],
            },
        ),
    ]
