-- Exactly one of intent, lease and outcome per task.
select t.id::text
from ledgence_task t
left join ledgence_deliveryintent i on i.task_id = t.id
left join ledgence_lease l on l.task_id = t.id
where (i.task_id is not null)::int + (l.task_id is not null)::int + (t.outcome is not null)::int <> 1
