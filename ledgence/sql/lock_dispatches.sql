-- Locks the intents of the named tasks that a session may have at all: those of queues that it serves. Tells which it may
-- run now: due, of a queue that is not paused, and of a program in its catalogue; and of the others whether that is all
-- that they lack.
-- Locks: the intents, waiting, in task order; the clock is read after the locks.
-- Index: primary keys of session and intent, one probe a row.
-- Not the ORM: the session's arrays, and the clock.
with session as materialized (
    select tenant, namespace, queues, exclude_queues, programs from ledgence_workersession where id = %(session)s
),
held as materialized (
    select i.task_id, i.generation, i.available_at, q.paused_at, i.program_id = any(s.programs) as is_known
    from session s, ledgence_deliveryintent i join ledgence_queue q on q.id = i.queue_id
    where i.task_id = any(%(tasks)s::uuid[])
      and q.tenant = s.tenant and q.namespace = s.namespace
      and (s.queues = '{}' or q.name = any(s.queues)) and q.name <> all(s.exclude_queues)
    order by i.task_id
    for update of i
),
clock as materialized (select clock_timestamp() as now from (select count(*) from held) after_the_locks)
select h.task_id, h.generation, h.available_at <= c.now and h.paused_at is null, h.is_known from held h, clock c
