"""Publication of external queues: who publishes, what became of each publication, and what could not be claimed."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ledgence", "0005_housekeeping_turn"),
    ]

    operations = [
        migrations.CreateModel(
            name="Publisher",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("host", models.CharField(max_length=255, verbose_name="host")),
                ("pid", models.PositiveIntegerField(verbose_name="process id")),
                ("version", models.CharField(max_length=128, verbose_name="version")),
                ("started_at", models.DateTimeField(verbose_name="started at")),
                ("turned_at", models.DateTimeField(verbose_name="turned at")),
                ("confirmed_at", models.DateTimeField(null=True, verbose_name="broker answered at")),
                ("failure", models.TextField(blank=True, db_default="", default="", verbose_name="failure")),
            ],
            options={
                "verbose_name": "publisher",
                "verbose_name_plural": "publishers",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="QuarantinedMessage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("message_id", models.CharField(max_length=255, verbose_name="message")),
                (
                    "reason",
                    models.CharField(
                        choices=[
                            ("malformed", "malformed"),
                            ("oversized", "oversized"),
                            ("unknown_version", "unknown version"),
                            ("foreign", "foreign"),
                            ("not_found", "not found"),
                        ],
                        max_length=16,
                        verbose_name="reason",
                    ),
                ),
                ("detail", models.TextField(verbose_name="detail")),
                ("body", models.TextField(verbose_name="body")),
                ("received_at", models.DateTimeField(verbose_name="received at")),
            ],
            options={
                "verbose_name": "quarantined message",
                "verbose_name_plural": "quarantined messages",
                "default_permissions": ("view",),
            },
        ),
        migrations.AddField(
            model_name="deliveryintent",
            name="confirmed_at",
            field=models.DateTimeField(null=True, verbose_name="confirmed at"),
        ),
        migrations.AddField(
            model_name="deliveryintent",
            name="publish_token",
            field=models.UUIDField(editable=False, null=True, verbose_name="publication lease"),
        ),
        migrations.AddField(
            model_name="deliveryintent",
            name="refusals",
            field=models.PositiveSmallIntegerField(db_default=0, default=0, verbose_name="refusals"),
        ),
        migrations.AlterField(
            model_name="attempt",
            name="destination",
            field=models.CharField(max_length=255, null=True, verbose_name="destination"),
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
                    ("pause", "pause"),
                    ("resume", "resume"),
                    ("route", "change route"),
                    ("issue_token", "issue token"),
                    ("revoke_token", "revoke token"),
                ],
                max_length=12,
                verbose_name="kind",
            ),
        ),
        migrations.AlterField(
            model_name="queue",
            name="destination",
            field=models.CharField(blank=True, max_length=255, null=True, verbose_name="destination"),
        ),
        migrations.AddField(
            model_name="publisher",
            name="queue",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="publishers",
                to="ledgence.queue",
                verbose_name="queue",
            ),
        ),
        migrations.AddField(
            model_name="quarantinedmessage",
            name="queue",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="quarantined",
                to="ledgence.queue",
                verbose_name="queue",
            ),
        ),
        migrations.AddField(
            model_name="quarantinedmessage",
            name="session",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="ledgence.workersession",
                verbose_name="worker session",
            ),
        ),
        migrations.AddIndex(
            model_name="quarantinedmessage",
            index=models.Index(fields=["-received_at", "-id"], name="ledgence_quarantined_newest"),
        ),
        migrations.AddConstraint(
            model_name="quarantinedmessage",
            constraint=models.UniqueConstraint(fields=("queue", "message_id"), name="ledgence_quarantined_once"),
        ),
    ]
