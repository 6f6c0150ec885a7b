-- Finds due work for a session: the first intents over all its queues, by priority, time and id, of programs in its
-- catalogue. Walks the priorities that exist (PostgreSQL 15 to 17 have no skip scan), then reads each one's due head.
-- statement_timestamp(), not the volatile clock: that would turn the index condition into a filter over every future
-- intent. take_intents reads the clock again once it holds the rows.
-- Locks: nothing. Index: ledgence_intent_due.
-- Not the ORM: recursive walk.
with recursive session as materialized (
    select tenant, namespace, queues, exclude_queues, programs from ledgence_workersession where id = %(session)s
),
queue as materialized (
    select q.id from session s
    join ledgence_queue q on q.tenant = s.tenant and q.namespace = s.namespace
    where q.mode = 'integrated' and q.paused_at is null
      and (s.queues = '{}' or q.name = any(s.queues)) and q.name <> all(s.exclude_queues)
),
level as (
    select q.id as queue_id, top.priority
    from queue q cross join lateral (
        select i.priority from ledgence_deliveryintent i
        where i.queue_id = q.id order by i.priority desc, i.available_at, i.task_id limit 1
    ) top
    union all
    select l.queue_id, lower.priority
    from level l cross join lateral (
        select i.priority from ledgence_deliveryintent i
        where i.queue_id = l.queue_id and i.priority < l.priority
        order by i.priority desc, i.available_at, i.task_id limit 1
    ) lower
)
select due.task_id, l.queue_id, l.priority, due.available_at
from level l cross join lateral (
    select i.task_id, i.available_at from ledgence_deliveryintent i
    where i.queue_id = l.queue_id and i.priority = l.priority and i.available_at <= statement_timestamp()
      and i.program_id = any((select programs from session)::int[])
    order by i.available_at, i.task_id
    limit %(limit)s
) due
order by l.priority desc, due.available_at, due.task_id
limit %(limit)s
