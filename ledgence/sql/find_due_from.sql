-- Finds due work like find_due, but starts each (queue, priority) at a low-water mark: the head that was dead when this
-- process last walked from the start is not read again. With an old snapshot open, dead intents at the head cannot be
-- removed and would be read by every search. Misses work older than the mark and new priorities: find_due comes again
-- within a second.
-- Locks: nothing. Index: ledgence_intent_due.
-- Not the ORM: lateral probes over arrays.
select due.task_id, m.queue_id, m.priority, due.available_at
from unnest(%(queues)s::int[], %(priorities)s::smallint[], %(marks)s::timestamptz[]) m(queue_id, priority, available_at)
join ledgence_queue q on q.id = m.queue_id and q.mode = 'integrated' and q.paused_at is null
cross join lateral (
    select i.task_id, i.available_at from ledgence_deliveryintent i
    where i.queue_id = m.queue_id and i.priority = m.priority and i.available_at >= m.available_at
      and i.available_at <= statement_timestamp()
      and i.program_id = any((select programs from ledgence_workersession where id = %(session)s)::int[])
    order by i.available_at, i.task_id
    limit %(limit)s
) due
order by m.priority desc, due.available_at, due.task_id
limit %(limit)s
