-- Finds due work for a session: the first intents over all its queues, by priority, time and id, of programs in its
-- catalogue. Walks the priorities that exist (PostgreSQL 15 to 17 have no skip scan), then reads the due ones of each
-- whose earliest intent is due. Where that one's program is foreign, not in the catalogue, a row without a task follows:
-- the caller tells the next search where the foreign intents ended (``marks``), lest each reads all of them again.
-- statement_timestamp(), not the volatile clock: that would turn the index condition into a filter over every future
-- intent. take_intents reads the clock again once it holds the rows.
-- Locks: nothing. Index: ledgence_intent_due, which holds the programs too.
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
    select q.id as queue_id, top.*
    from queue q cross join lateral (
        select i.priority, i.available_at, i.program_id from ledgence_deliveryintent i
        where i.queue_id = q.id order by i.priority desc, i.available_at, i.task_id limit 1
    ) top
    union all
    select l.queue_id, lower.*
    from level l cross join lateral (
        select i.priority, i.available_at, i.program_id from ledgence_deliveryintent i
        where i.queue_id = l.queue_id and i.priority < l.priority
        order by i.priority desc, i.available_at, i.task_id limit 1
    ) lower
),
due_level as materialized (
    select l.queue_id, l.priority, greatest(l.available_at, m.available_at) as since,
           l.program_id <> all((select programs from session)::int[]) as is_foreign
    from level l
    left join unnest(%(queues)s::int[], %(priorities)s::smallint[], %(marks)s::timestamptz[])
        m(queue_id, priority, available_at) on m.queue_id = l.queue_id and m.priority = l.priority
    where l.available_at <= statement_timestamp()
)
(
    select due.task_id, l.queue_id, l.priority, due.available_at
    from due_level l cross join lateral (
        select i.task_id, i.available_at from ledgence_deliveryintent i
        where i.queue_id = l.queue_id and i.priority = l.priority
          and i.available_at >= l.since and i.available_at <= statement_timestamp()
          and i.program_id = any((select programs from session)::int[])
        order by i.available_at, i.task_id
        limit %(limit)s
    ) due
    order by l.priority desc, due.available_at, due.task_id
    limit %(limit)s
)
union all
select null, queue_id, priority, statement_timestamp() from due_level where is_foreign
