-- Tells whether nothing is queued (due now or later) or leased that a session could run. Locks: nothing.
-- Index: ledgence_intent_due by queue; leases are few and read whole. Not the ORM: two probes over the session's arrays.
with session as materialized (
    select tenant, namespace, queues, exclude_queues, programs from ledgence_workersession where id = %(session)s
),
queue as materialized (
    select q.id from session s
    join ledgence_queue q on q.tenant = s.tenant and q.namespace = s.namespace
    where (s.queues = '{}' or q.name = any(s.queues)) and q.name <> all(s.exclude_queues)
)
select not exists (
    select 1 from queue q cross join lateral (
        select 1 from ledgence_deliveryintent i
        where i.queue_id = q.id and i.program_id = any((select programs from session)::int[])
        order by i.priority desc, i.available_at, i.task_id
        limit 1
    ) found
) and not exists (
    select 1 from ledgence_lease l where l.queue_id in (select id from queue)
      and l.program_id = any((select programs from session)::int[])
)
