-- Lists tasks of some queues of one tenant and namespace, newest first, below a cursor. Reads at most %(window)s ids from
-- the narrowest source that the filters name, an equal share from each queue, so that no page costs more than that,
-- however rare what it looks for. Below the last id of a queue whose share was full nothing is told: the last row, of
-- state null, says where the next page begins then. Ids of other tenants and queues are neither told nor counted.
-- Locks: nothing. Index: ledgence_queue_name; ledgence_task_queue; ledgence_task_correlated; ledgence_task_key;
-- ledgence_intent_due and its primary key; that of lease. Work that is queued is read in the order of ids where it is
-- more than a window, past that of others; so are leases, of which there are never more than processes.
-- Ranges in the order of one index, where an equality would do, leave the planner no other one. The rows of an id are
-- LATERAL probes, so that a page ends with its last task, and a plan made while the tables were empty does not join whole
-- windows. Not the ORM: a source chosen by parameter, and the derived state.
with scope as materialized (
    select id, greatest(%(window)s::bigint / count(*) over (), 1) as share
    from ledgence_queue
    where tenant = %(tenant)s and namespace = %(namespace)s
      and (%(queues)s::text[] is null or name = any(%(queues)s::text[]))
),
few_queued as materialized (
    select i.task_id from scope q
    cross join lateral (select task_id from ledgence_deliveryintent i where i.queue_id = q.id) i
    where %(source)s = 'queued' limit %(window)s
),
seen as materialized (
    (select q.id as queue_id, q.share, t.id from scope q cross join lateral (
        select id from ledgence_task t
        where t.queue_id > q.id - 1 and (t.queue_id, t.id) < (q.id, %(cursor)s::uuid)
        order by t.queue_id desc, t.id desc limit q.share
     ) t
     where %(source)s = 'task')
    union all
    (select q.id, q.share, t.id from scope q cross join lateral (
        select id from ledgence_task t
        where t.correlation_key is not null
          and (t.correlation_key, t.queue_id) >= (%(correlation_key)s::text, q.id)
          and (t.correlation_key, t.queue_id, t.id) < (%(correlation_key)s::text, q.id, %(cursor)s::uuid)
        order by t.correlation_key desc, t.queue_id desc, t.id desc limit q.share
     ) t
     where %(source)s = 'correlation')
    union all
    (select 0, %(window)s::bigint, task_id from few_queued
     where task_id < %(cursor)s::uuid and (select count(*) from few_queued) < %(window)s)
    union all
    (select 0, %(window)s::bigint, task_id from ledgence_deliveryintent
     where (select count(*) from few_queued) >= %(window)s
       and task_id < %(cursor)s::uuid and queue_id = any(array(select id from scope))
     order by task_id desc limit %(window)s)
    union all
    (select 0, %(window)s::bigint, task_id from ledgence_lease
     where %(source)s = 'active' and task_id < %(cursor)s::uuid and queue_id = any(array(select id from scope))
     order by task_id desc limit %(window)s)
    union all
    (select 0, 2, id from ledgence_task
     where %(source)s = 'key' and tenant = %(tenant)s and namespace = %(namespace)s
       and idempotency_key = %(idempotency_key)s and id < %(cursor)s::uuid
       and queue_id = any(array(select id from scope)))
),
-- max() of a UUID exists since PostgreSQL 18.
ended as materialized (
    select id from (
        select distinct on (queue_id) id, count(*) over (partition by queue_id) as count, share
        from seen order by queue_id, id
    ) last
    where count >= share order by id desc limit 1
),
listed as (
    select s.id, coalesce(
               t.outcome, case when l.is_held then 'active' when i.is_ready then 'queued' else 'waiting' end
           ) as state,
           q.name as queue, p.name as program, p.version, t.priority, t.submitted_at, t.finished_at,
           t.cancel_requested_at, t.idempotency_key, t.correlation_key, t.copy_of, t.revision
    from (
        select id from seen where not exists (select 1 from ended where ended.id > seen.id) order by id desc
    ) s
    cross join lateral (select * from ledgence_task t where t.id = s.id limit 1) t
    cross join lateral (select q.name from ledgence_queue q where q.id = t.queue_id limit 1) q
    cross join lateral (select p.name, p.version from ledgence_program p where p.id = t.program_id limit 1) p
    left join lateral (select true as is_held from ledgence_lease l where l.task_id = s.id limit 1) l on true
    left join lateral (select true as is_ready from ledgence_deliveryintent i where i.task_id = s.id limit 1) i on true
    where (%(program)s::text is null or p.name = %(program)s)
      and (%(correlation_key)s::text is null or t.correlation_key = %(correlation_key)s)
      and (%(idempotency_key)s::text is null or t.idempotency_key = %(idempotency_key)s)
)
(
    select * from listed where %(state)s::text is null or state = %(state)s order by id desc limit %(limit)s
)
union all
select id, null, null, null, null, null, null, null, null, null, null, null, null from ended
