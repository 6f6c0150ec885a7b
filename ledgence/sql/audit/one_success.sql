-- A succeeded task has exactly one attempt that made it so, its last; no other task has one. (An attempt that succeeded
-- after a cancel request made its task cancelled.)
select t.id::text
from ledgence_task t
where t.outcome = 'succeeded'
  and (select array_agg(a.number) filter (where a.consequence = 'succeeded') is distinct from array[max(a.number)]
       from ledgence_attempt a where a.task_id = t.id)
union all
select a.task_id::text
from ledgence_attempt a join ledgence_task t on t.id = a.task_id
where a.consequence = 'succeeded' and (a.outcome <> 'succeeded' or t.outcome is distinct from 'succeeded')
