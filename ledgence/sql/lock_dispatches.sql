-- Locks the intents of the named tasks that a session may have at all: those of queues that it serves. Tells which it may
-- run now: due, of a queue that is not paused, and of a program in its catalogue; and of the others whether that is all
-- that they lack.
-- Locks: the intents, waiting, in task order; the clock is read after the locks.
-- Index: primary keys of session and intent, one probe a row, also where the plan was made while the tables were empty: the
-- limit and the array leave no way that begins with all intents of a queue.
-- Not the ORM: the session's arrays, and the clock.
with session as materialized (
    select tenant, namespace, queues, exclude_queues, programs from ledgence_workersession where id = %(session)s
),
served as materialized (
    select i.task_id, i.queue_id
    from unnest(%(tasks)s::uuid[]) n(task_id)
    cross join lateral (select task_id, queue_id from ledgence_deliveryintent where task_id = n.task_id limit 1) i
    join ledgence_queue q on q.id = i.queue_id
    cross join session s
    where q.tenant = s.tenant and q.namespace = s.namespace
      and (s.queues = '{}' or q.name = any(s.queues)) and q.name <> all(s.exclude_queues)
),
held as materialized (
    select task_id, generation, available_at, queue_id, program_id from ledgence_deliveryintent
    where task_id = any(array(select task_id from served))
    order by task_id
    for update
),
clock as materialized (select clock_timestamp() as now from (select count(*) from held) after_the_locks)
select h.task_id, h.generation, h.available_at <= c.now and q.paused_at is null,
       h.program_id = any((select programs from session)::int[])
from held h join ledgence_queue q on q.id = h.queue_id, clock c
-- What was moved away while this waited for its lock is not served any more.
where h.queue_id = any(array(select queue_id from served))
