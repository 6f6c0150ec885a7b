-- A cancel request stands until the task ends or is requeued: none on a task that is queued again.
select t.id::text
from ledgence_task t join ledgence_deliveryintent i on i.task_id = t.id
where t.cancel_requested_at is not null
