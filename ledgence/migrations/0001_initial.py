"""The tables of the ledger, one operation each, in the order in which they refer to each other."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import ledgence.models.columns


class Migration(migrations.Migration):
    initial = True

    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.CreateModel(
            name="Queue",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                ("tenant", models.CharField(max_length=128, verbose_name="tenant")),
                ("namespace", models.CharField(max_length=128, verbose_name="namespace")),
                ("name", models.CharField(max_length=128, verbose_name="name")),
                (
                    "mode",
                    models.CharField(
                        choices=[("integrated", "integrated"), ("external", "external")],
                        default="integrated",
                        max_length=10,
                        verbose_name="mode",
                    ),
                ),
                ("destination", models.CharField(blank=True, max_length=128, null=True, verbose_name="destination")),
                ("paused_at", models.DateTimeField(blank=True, null=True, verbose_name="paused at")),
                ("paused_by", models.CharField(blank=True, default="", max_length=255, verbose_name="paused by")),
                ("pause_reason", models.TextField(blank=True, default="", verbose_name="pause reason")),
            ],
            options={
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
                "permissions": [("pause_queue", "Can pause and resume queues")],
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "namespace", "name"), name="ledgence_queue_name"),
                    models.UniqueConstraint(
                        condition=models.Q(("destination__isnull", False)),
                        fields=("destination",),
                        name="ledgence_queue_destination",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("mode__in", ["integrated", "external"])), name="ledgence_queue_mode"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("destination__isnull", False), ("mode", "external")),
                            models.Q(("destination__isnull", True), ("mode", "integrated")),
                            _connector="OR",
                        ),
                        name="ledgence_queue_route",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Program",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                ("tenant", models.CharField(max_length=128, verbose_name="tenant")),
                ("namespace", models.CharField(max_length=128, verbose_name="namespace")),
                ("name", models.CharField(max_length=128, verbose_name="name")),
                ("version", models.CharField(max_length=128, verbose_name="version")),
                ("entry_point", models.CharField(max_length=512, null=True, verbose_name="entry point")),
            ],
            options={
                "verbose_name": "program",
                "verbose_name_plural": "programs",
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "namespace", "name", "version"), name="ledgence_program_version"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Policy",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                ("digest", models.BinaryField(unique=True)),
                ("max_attempts", models.PositiveSmallIntegerField(verbose_name="max attempts")),
                ("timeout_seconds", models.FloatField(null=True, verbose_name="time-out")),
                ("backoff_initial_seconds", models.FloatField(verbose_name="first backoff")),
                ("backoff_factor", models.FloatField(verbose_name="backoff factor")),
                ("backoff_maximum_seconds", models.FloatField(verbose_name="longest backoff")),
                ("backoff_jitter", models.FloatField(verbose_name="jitter")),
                (
                    "retry_on",
                    ledgence.models.columns.ArrayColumn("text", verbose_name="retried outcomes and exceptions"),
                ),
            ],
            options={
                "verbose_name": "policy",
                "verbose_name_plural": "policies",
                "default_permissions": ("view",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("max_attempts__gte", 1)), name="ledgence_policy_attempts"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("timeout_seconds__isnull", True), ("timeout_seconds__gt", 0), _connector="OR"
                        ),
                        name="ledgence_policy_timeout",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("backoff_factor__range", (1, 10)),
                            ("backoff_initial_seconds__gte", 0),
                            ("backoff_maximum_seconds__range", (0, 31536000)),
                            ("backoff_jitter__range", (0, 1)),
                        ),
                        name="ledgence_policy_backoff",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("tenant", models.CharField(max_length=128, verbose_name="tenant")),
                ("namespace", models.CharField(max_length=128, verbose_name="namespace")),
                (
                    "queue",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="ledgence.queue",
                        verbose_name="queue",
                    ),
                ),
                (
                    "program",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="ledgence.program",
                        verbose_name="program",
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="ledgence.policy",
                        verbose_name="policy",
                    ),
                ),
                ("priority", models.SmallIntegerField(verbose_name="priority")),
                ("submitted_at", models.DateTimeField(verbose_name="submitted at")),
                ("idempotency_key", models.CharField(max_length=255, null=True, verbose_name="idempotency key")),
                ("digest", models.BinaryField(null=True)),
                ("correlation_key", models.CharField(max_length=255, null=True, verbose_name="correlation key")),
                ("traceparent", models.CharField(max_length=55, null=True)),
                ("copy_of", models.UUIDField(null=True, verbose_name="copy of")),
                ("data", ledgence.models.columns.JsonColumn(verbose_name="data")),
                ("cancel_requested_at", models.DateTimeField(null=True, verbose_name="cancel requested at")),
                ("outcome", models.CharField(max_length=10, null=True, verbose_name="outcome")),
                ("finished_at", models.DateTimeField(null=True, verbose_name="finished at")),
                ("result", ledgence.models.columns.JsonColumn(null=True, verbose_name="result")),
                ("revision", models.PositiveIntegerField(default=0, verbose_name="revision")),
            ],
            options={
                "verbose_name": "task",
                "verbose_name_plural": "tasks",
                "permissions": [("requeue_task", "Can requeue tasks"), ("cancel_task", "Can cancel tasks")],
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("outcome__in", ["failed", "cancelled"])),
                        fields=["outcome", "-finished_at", "-id"],
                        name="ledgence_task_ended",
                    ),
                    models.Index(
                        condition=models.Q(("correlation_key__isnull", False)),
                        fields=["correlation_key"],
                        name="ledgence_task_correlation",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("idempotency_key__isnull", False)),
                        fields=("tenant", "namespace", "idempotency_key"),
                        name="ledgence_task_key",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("priority__range", (-100, 100))), name="ledgence_task_priority"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("finished_at__isnull", True), ("outcome__isnull", True)),
                            models.Q(
                                ("finished_at__isnull", False),
                                ("outcome__in", ["succeeded", "failed", "cancelled"]),
                                ("outcome__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="ledgence_task_outcome",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("result__isnull", True),
                            models.Q(("outcome", "succeeded"), ("outcome__isnull", False)),
                            _connector="OR",
                        ),
                        name="ledgence_task_result",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("idempotency_key__isnull", True), ("digest__isnull", False), _connector="OR"
                        ),
                        name="ledgence_task_digest",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DeliveryIntent",
            fields=[
                (
                    "task",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="intent",
                        serialize=False,
                        to="ledgence.task",
                        verbose_name="task",
                    ),
                ),
                ("generation", models.PositiveIntegerField(verbose_name="generation")),
                ("cause", models.CharField(max_length=12, verbose_name="cause")),
                ("charged", models.PositiveSmallIntegerField(verbose_name="charged attempts")),
                (
                    "queue",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="ledgence.queue",
                        verbose_name="queue",
                    ),
                ),
                (
                    "program",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="ledgence.program",
                        verbose_name="program",
                    ),
                ),
                ("priority", models.SmallIntegerField(verbose_name="priority")),
                ("available_at", models.DateTimeField(verbose_name="available at")),
                ("epoch", models.PositiveIntegerField(db_default=1, default=1, verbose_name="epoch")),
                ("publication_id", models.UUIDField(null=True, verbose_name="publication")),
                ("publications", models.PositiveIntegerField(db_default=0, default=0, verbose_name="publications")),
                ("first_published_at", models.DateTimeField(null=True, verbose_name="first published at")),
                ("last_published_at", models.DateTimeField(null=True, verbose_name="last published at")),
                ("next_publish_at", models.DateTimeField(null=True, verbose_name="next publication at")),
            ],
            options={
                "verbose_name": "delivery intent",
                "verbose_name_plural": "delivery intents",
                "permissions": [("republish_deliveryintent", "Can republish delivery intents")],
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        fields=["queue", "-priority", "available_at", "task"],
                        include=("program",),
                        name="ledgence_intent_due",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("generation__gte", 1)), name="ledgence_intent_generation"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="DeliveryEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="delivery_events",
                        to="ledgence.task",
                        verbose_name="task",
                    ),
                ),
                ("generation", models.PositiveIntegerField(verbose_name="generation")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("failed", "failed"),
                            ("uncertain", "uncertain"),
                            ("repair", "repair"),
                            ("republish", "republish"),
                        ],
                        max_length=10,
                        verbose_name="kind",
                    ),
                ),
                ("epoch", models.PositiveIntegerField(verbose_name="epoch")),
                ("publication_id", models.UUIDField(null=True, verbose_name="publication")),
                ("detail", ledgence.models.columns.JsonColumn(null=True, verbose_name="detail")),
                ("happened_at", models.DateTimeField(verbose_name="happened at")),
            ],
            options={
                "verbose_name": "delivery event",
                "verbose_name_plural": "delivery events",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="WorkerSession",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("tenant", models.CharField(max_length=128, verbose_name="tenant")),
                ("namespace", models.CharField(max_length=128, verbose_name="namespace")),
                ("name", models.CharField(max_length=128, verbose_name="name")),
                ("host", models.CharField(max_length=255, verbose_name="host")),
                ("pid", models.PositiveIntegerField(verbose_name="process id")),
                ("version", models.CharField(max_length=128, verbose_name="version")),
                ("concurrency", models.PositiveSmallIntegerField(verbose_name="concurrency")),
                ("queues", ledgence.models.columns.ArrayColumn("text", verbose_name="queues")),
                ("exclude_queues", ledgence.models.columns.ArrayColumn("text", verbose_name="excluded queues")),
                ("programs", ledgence.models.columns.ArrayColumn("integer", verbose_name="catalogue")),
                ("opened_at", models.DateTimeField(verbose_name="opened at")),
                ("expires_at", models.DateTimeField(verbose_name="expires at")),
                ("closed_at", models.DateTimeField(null=True, verbose_name="closed at")),
            ],
            options={
                "verbose_name": "worker session",
                "verbose_name_plural": "worker sessions",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Channel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="channels",
                        to="ledgence.workersession",
                    ),
                ),
                ("number", models.PositiveSmallIntegerField()),
                ("sequence", models.PositiveBigIntegerField()),
                ("tasks", ledgence.models.columns.ArrayColumn("uuid")),
                ("attempts", ledgence.models.columns.ArrayColumn("integer")),
                ("answered_at", models.DateTimeField()),
            ],
            options={
                "default_permissions": (),
                "constraints": [models.UniqueConstraint(fields=("session", "number"), name="ledgence_channel_number")],
            },
        ),
        migrations.CreateModel(
            name="Lease",
            fields=[
                (
                    "task",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="lease",
                        serialize=False,
                        to="ledgence.task",
                        verbose_name="task",
                    ),
                ),
                ("number", models.PositiveIntegerField(verbose_name="attempt")),
                ("token", models.UUIDField(editable=False, verbose_name="lease token")),
                (
                    "session",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="leases",
                        to="ledgence.workersession",
                        verbose_name="session",
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="ledgence.queue",
                        verbose_name="queue",
                    ),
                ),
                (
                    "program",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="ledgence.program",
                        verbose_name="program",
                    ),
                ),
                ("priority", models.SmallIntegerField(verbose_name="priority")),
                ("charged", models.PositiveSmallIntegerField(verbose_name="charged attempts before")),
                ("expires_at", models.DateTimeField(verbose_name="expires at")),
                ("bound_at", models.DateTimeField(null=True, verbose_name="bound")),
                ("cancel_requested_at", models.DateTimeField(null=True, verbose_name="cancel requested at")),
            ],
            options={
                "verbose_name": "lease",
                "verbose_name_plural": "leases",
                "permissions": [("expire_lease", "Can force leases to expire")],
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["expires_at"], name="ledgence_lease_expiry")],
            },
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "task",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="attempts",
                        to="ledgence.task",
                        verbose_name="task",
                    ),
                ),
                ("number", models.PositiveIntegerField(verbose_name="number")),
                ("cause", models.CharField(max_length=12, verbose_name="cause")),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="attempts",
                        to="ledgence.workersession",
                        verbose_name="session",
                    ),
                ),
                ("token", models.UUIDField(editable=False, null=True, verbose_name="lease token")),
                ("claimed_at", models.DateTimeField(null=True, verbose_name="claimed at")),
                ("authorized_at", models.DateTimeField(null=True, verbose_name="authorized at")),
                ("lease_expires_at", models.DateTimeField(null=True, verbose_name="last lease expiry")),
                ("finished_at", models.DateTimeField(null=True, verbose_name="finished at")),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("timed_out", "timed out"),
                            ("crashed", "crashed"),
                            ("lost", "lost"),
                            ("interrupted", "interrupted"),
                            ("cancelled", "cancelled"),
                            ("suspended", "suspended"),
                        ],
                        max_length=11,
                        null=True,
                        verbose_name="outcome",
                    ),
                ),
                ("consequence", models.CharField(max_length=9, null=True, verbose_name="consequence")),
                ("settlement", models.BinaryField(null=True)),
                ("report", ledgence.models.columns.JsonColumn(null=True, verbose_name="report")),
                ("result", ledgence.models.columns.JsonColumn(null=True, verbose_name="result")),
                ("late_settlement", models.BinaryField(null=True)),
                (
                    "late_outcome",
                    models.CharField(
                        choices=[
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("timed_out", "timed out"),
                            ("crashed", "crashed"),
                            ("lost", "lost"),
                            ("interrupted", "interrupted"),
                            ("cancelled", "cancelled"),
                            ("suspended", "suspended"),
                        ],
                        max_length=11,
                        null=True,
                        verbose_name="late outcome",
                    ),
                ),
                ("late_report", ledgence.models.columns.JsonColumn(null=True, verbose_name="late report")),
                ("late_result", ledgence.models.columns.JsonColumn(null=True, verbose_name="late result")),
                ("late_at", models.DateTimeField(null=True, verbose_name="late report at")),
                ("delivery_mode", models.CharField(max_length=10, verbose_name="delivery mode")),
                ("destination", models.CharField(max_length=128, null=True, verbose_name="destination")),
                ("available_at", models.DateTimeField(verbose_name="available at")),
                ("publication_id", models.UUIDField(null=True, verbose_name="publication")),
                ("publications", models.PositiveIntegerField(db_default=0, default=0, verbose_name="publications")),
                ("first_published_at", models.DateTimeField(null=True, verbose_name="first published at")),
                ("last_published_at", models.DateTimeField(null=True, verbose_name="last published at")),
            ],
            options={
                "verbose_name": "attempt",
                "verbose_name_plural": "attempts",
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(fields=("task", "number"), name="ledgence_attempt_number"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("finished_at__isnull", True), ("outcome__isnull", True)),
                            models.Q(("finished_at__isnull", False), ("outcome__isnull", False)),
                            _connector="OR",
                        ),
                        name="ledgence_attempt_outcome",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("claimed_at__isnull", False), ("session__isnull", False), ("token__isnull", False)
                            ),
                            models.Q(
                                ("claimed_at__isnull", True),
                                ("outcome", "cancelled"),
                                ("outcome__isnull", False),
                                ("session__isnull", True),
                                ("token__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="ledgence_attempt_owner",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("settlement__isnull", True), ("late_settlement__isnull", True), _connector="OR"
                        ),
                        name="ledgence_attempt_evidence",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="OperatorAction",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("requeue", "requeue"),
                            ("copy", "requeue as copy"),
                            ("cancel", "cancel"),
                            ("republish", "republish"),
                            ("force_expire", "force expire"),
                            ("pause", "pause"),
                            ("resume", "resume"),
                        ],
                        max_length=12,
                        verbose_name="kind",
                    ),
                ),
                (
                    "actor",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="actor",
                    ),
                ),
                ("actor_name", models.CharField(max_length=255, verbose_name="actor's name")),
                ("reason", models.TextField(verbose_name="reason")),
                ("acted_at", models.DateTimeField(verbose_name="acted at")),
            ],
            options={
                "verbose_name": "operator action",
                "verbose_name_plural": "operator actions",
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["-acted_at", "-id"], name="ledgence_action_newest")],
            },
        ),
        migrations.CreateModel(
            name="OperatorActionTarget",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "action",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="targets",
                        to="ledgence.operatoraction",
                    ),
                ),
                ("target", models.CharField(max_length=64, verbose_name="target")),
                ("expected_revision", models.PositiveIntegerField(null=True, verbose_name="expected revision")),
                ("answer", models.CharField(max_length=64, verbose_name="answer")),
            ],
            options={
                "verbose_name": "operator action target",
                "verbose_name_plural": "operator action targets",
                "default_permissions": (),
                "indexes": [models.Index(fields=["target"], name="ledgence_action_by_target")],
                "constraints": [models.UniqueConstraint(fields=("action", "target"), name="ledgence_action_target")],
            },
        ),
    ]
