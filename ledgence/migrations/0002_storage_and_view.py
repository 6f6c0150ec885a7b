"""Storage settings of the hot tables, and the view of tasks with their state for people with psql."""

from django.db import migrations

# Intents and leases live for seconds and are deleted by the thousand: vacuum by count, not by share of the table.
HOT_TABLES = ("ledgence_deliveryintent", "ledgence_lease")
SETTINGS = (
    "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, "
    "autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000, "
    "autovacuum_vacuum_cost_delay = 0"
)
NAMES = SETTINGS.replace(" = 2000", "").replace(" = 5000", "").replace(" = 0", "")

VIEW = """
create view ledgence_task_state as
select t.id, t.tenant, t.namespace, q.name as queue, p.name as program, p.version, t.priority, t.submitted_at,
       t.finished_at,
       coalesce(t.outcome, case when l.task_id is not null then 'active' when i.task_id is not null then 'queued' end)
           as state,
       i.available_at, l.number as attempt, l.expires_at, l.session_id
from ledgence_task t
join ledgence_queue q on q.id = t.queue_id
join ledgence_program p on p.id = t.program_id
left join ledgence_deliveryintent i on i.task_id = t.id
left join ledgence_lease l on l.task_id = t.id
"""


class Migration(migrations.Migration):
    dependencies = [("ledgence", "0001_initial")]

    operations = [
        *(
            migrations.RunSQL(f"alter table {table} set ({SETTINGS})", f"alter table {table} reset ({NAMES})")
            for table in HOT_TABLES
        ),
        # Their ends are updates of rows that were just inserted: room on the page keeps them there.
        migrations.RunSQL(
            "alter table ledgence_attempt set (fillfactor = 85)", "alter table ledgence_attempt reset (fillfactor)"
        ),
        migrations.RunSQL(
            "alter table ledgence_task set (fillfactor = 85)", "alter table ledgence_task reset (fillfactor)"
        ),
        migrations.RunSQL(
            "alter table ledgence_channel set (fillfactor = 50)", "alter table ledgence_channel reset (fillfactor)"
        ),
        migrations.RunSQL(VIEW, "drop view ledgence_task_state"),
    ]
