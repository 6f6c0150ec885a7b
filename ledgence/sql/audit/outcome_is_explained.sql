-- A terminal task's outcome is what followed from its last attempt.
select t.id::text
from ledgence_task t
where t.outcome is not null
  and t.outcome is distinct from (
      select a.consequence from ledgence_attempt a where a.task_id = t.id order by a.number desc limit 1)
