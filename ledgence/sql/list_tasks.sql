-- Lists tasks of one tenant and namespace, newest first, below a cursor. Reads at most %(window)s ids from the narrowest
-- source that the filters name, so that no page costs more than that, however rare what it looks for; the last row, of
-- state null, says where the window ended when it was full.
-- Locks: nothing. Index: primary keys of task, intent and lease; ledgence_task_key; ledgence_task_correlation.
-- Not the ORM: a source chosen by parameter, and the derived state.
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
    select t.id, coalesce(
               t.outcome,
               case when l.task_id is not null then 'active' when i.task_id is not null then 'queued' else 'waiting' end
           ) as state,
           q.name as queue, p.name as program, p.version, t.priority, t.submitted_at, t.finished_at,
           t.cancel_requested_at, t.idempotency_key, t.correlation_key, t.copy_of, t.revision
    from (select id from seen order by id desc) s
    join ledgence_task t on t.id = s.id
    join ledgence_queue q on q.id = t.queue_id
    join ledgence_program p on p.id = t.program_id
    left join ledgence_lease l on l.task_id = t.id
    left join ledgence_deliveryintent i on i.task_id = t.id
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
