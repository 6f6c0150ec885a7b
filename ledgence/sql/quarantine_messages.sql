-- Records messages that can never be claimed, each once by the broker's id, for a queue that the session serves. Returns
-- the queue's id, and nothing where the session serves no such queue.
-- Locks: the new rows; waits for a concurrent insert of the same message. In message order, so that two batches cannot
-- deadlock. Index: ledgence_queue_name, ledgence_quarantined_once.
-- Not the ORM: one statement, the session's arrays, and the clock.
with queue as materialized (
    select q.id from ledgence_workersession s
    join ledgence_queue q on q.tenant = s.tenant and q.namespace = s.namespace and q.name = %(queue)s
    where s.id = %(session)s
      and (s.queues = '{}' or q.name = any(s.queues)) and q.name <> all(s.exclude_queues)
),
message as (
    insert into ledgence_quarantinedmessage (queue_id, session_id, message_id, reason, detail, body, received_at)
    select queue.id, %(session)s, m.message_id, m.reason, m.detail, m.body, clock_timestamp()
    from queue, unnest(%(message_ids)s::text[], %(reasons)s::text[], %(details)s::text[], %(bodies)s::text[])
        m(message_id, reason, detail, body)
    order by m.message_id
    on conflict (queue_id, message_id) do nothing
)
select id from queue
