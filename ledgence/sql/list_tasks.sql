-- Lists tasks of one tenant and namespace, newest first, below a cursor. Reads at most %(window)s ids from the narrowest
-- source that the filters name, so that no page costs more than that, however rare what it looks for; the last row, of
-- state null, says where the window ended when it was full.
-- Locks: nothing. Index: primary keys of task, intent and lease; ledgence_task_key; ledgence_task_correlation.
-- The rows of an id are LATERAL probes, so that a page ends with its last task, and a plan made while the tables were
-- empty does not join whole windows. Not the ORM: a source chosen by parameter, and the derived state.
with seen as materialized (
    (select id from ledgence_task
     where %(source)s = 'task' and id < %(cursor)s::uuid order by id desc limit %(window)s)
    union all
    (select task_id from ledgence_deliveryintent
     where %(source)s = 'queued' and task_id < %(cursor)s::uuid order by task_id desc limit %(window)s)
    union all
    (select task_id from ledgence_lease
     where %(source)s = 'active' and task_id < %(cursor)s::uuid order by task_id desc limit %(window)s)
    union all
    (select id from ledgence_task
     where %(source)s = 'correlation' and correlation_key = %(correlation_key)s and id < %(cursor)s::uuid
     order by id desc limit %(window)s)
    union all
    (select id from ledgence_task
     where %(source)s = 'key' and tenant = %(tenant)s and namespace = %(namespace)s
       and idempotency_key = %(idempotency_key)s and id < %(cursor)s::uuid)
),
listed as (
    select s.id, coalesce(
               t.outcome, case when l.is_held then 'active' when i.is_ready then 'queued' else 'waiting' end
           ) as state,
           q.name as queue, p.name as program, p.version, t.priority, t.submitted_at, t.finished_at,
           t.cancel_requested_at, t.idempotency_key, t.correlation_key, t.copy_of, t.revision
    from (select id from seen order by id desc) s
    cross join lateral (select * from ledgence_task t where t.id = s.id limit 1) t
    cross join lateral (select q.name from ledgence_queue q where q.id = t.queue_id limit 1) q
    cross join lateral (select p.name, p.version from ledgence_program p where p.id = t.program_id limit 1) p
    left join lateral (select true as is_held from ledgence_lease l where l.task_id = s.id limit 1) l on true
    left join lateral (select true as is_ready from ledgence_deliveryintent i where i.task_id = s.id limit 1) i on true
    where t.tenant = %(tenant)s and t.namespace = %(namespace)s
      and (%(queues)s::text[] is null or q.name = any(%(queues)s::text[]))
      and (%(program)s::text is null or p.name = %(program)s)
      and (%(correlation_key)s::text is null or t.correlation_key = %(correlation_key)s)
      and (%(idempotency_key)s::text is null or t.idempotency_key = %(idempotency_key)s)
)
(
    select * from listed where %(state)s::text is null or state = %(state)s order by id desc limit %(limit)s
)
union all
select min_id, null, null, null, null, null, null, null, null, null, null, null, null
from (select id as min_id, count(*) over () as count from seen order by id limit 1) last
where count >= %(window)s
