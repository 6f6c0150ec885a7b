-- A succeeded task has exactly one succeeded attempt, its last; a task with another outcome that was not cancelled has
-- none since it was last requeued.
select t.id::text
from ledgence_task t
where t.outcome = 'succeeded'
  and (select array_agg(a.outcome = 'succeeded' order by a.number desc) from ledgence_attempt a where a.task_id = t.id)
      is distinct from
      (select array_agg(a.number = m.last order by a.number desc) from ledgence_attempt a,
              (select max(number) as last from ledgence_attempt where task_id = t.id) m where a.task_id = t.id)
