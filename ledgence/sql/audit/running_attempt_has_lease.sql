-- An attempt without an outcome has a lease.
select a.task_id || '.' || a.number
from ledgence_attempt a
left join ledgence_lease l on l.task_id = a.task_id and l.number = a.number
where a.outcome is null and l.task_id is null
