-- An intent's generation is the last attempt's number + 1.
select i.task_id::text
from ledgence_deliveryintent i
where i.generation <> 1 + coalesce((select max(a.number) from ledgence_attempt a where a.task_id = i.task_id), 0)
