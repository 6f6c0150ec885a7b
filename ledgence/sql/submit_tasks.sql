-- Submits tasks: inserts each task and its first delivery intent, in the caller's transaction. Tasks of one group share
-- queue, program, policy, priority and time, which are sent once. A group whose queue, program or policy does not exist
-- yet, or whose program has another entry point, inserts nothing: the caller makes it and repeats, or refuses. A task
-- whose idempotency key is taken inserts nothing either: a new statement (find_keys) reads the winner, which this
-- statement's snapshot may not see.
-- Locks: the new rows; waits for a concurrent insert of the same key. In key order, so that two batches cannot deadlock.
-- The queues (key share), so that none changes its route before the commit.
-- Index: ledgence_task_key for ON CONFLICT; unique indexes of queue, program and policy for the groups.
-- Not the ORM: two inserts, and the groups' look-ups, in one statement.
with clock as materialized (select clock_timestamp() as now),
grouped as materialized (
    select g.place, q.id as queue_id, q.tenant, q.namespace, q.mode, p.id as program_id, y.id as policy_id,
           g.priority, greatest(g.available_at, clock.now) as available_at
    from clock, unnest(%(tenants)s::text[], %(namespaces)s::text[], %(queues)s::text[], %(programs)s::text[],
                %(versions)s::text[], %(entry_points)s::text[], %(policies)s::bytea[], %(priorities)s::smallint[],
                %(available_ats)s::timestamptz[])
         with ordinality g(tenant, namespace, queue, program, version, entry_point, policy, priority, available_at, place)
    join ledgence_queue q on q.tenant = g.tenant and q.namespace = g.namespace and q.name = g.queue
    join ledgence_program p on p.tenant = g.tenant and p.namespace = g.namespace
                           and p.name = g.program and p.version = g.version
                           and (g.entry_point is null or p.entry_point = g.entry_point)
    join ledgence_policy y on y.digest = g.policy
    -- Held already by the foreign key of any task before: a route that changes meanwhile is waited for and then read.
    for key share of q
),
input as materialized (
    select i.id, i.key, i.digest, i.correlation_key, i.traceparent, i.copy_of, i.data, g.*
    from unnest(%(ids)s::uuid[], %(places)s::int[], %(keys)s::text[], %(digests)s::bytea[], %(correlation_keys)s::text[],
                %(traceparents)s::text[], %(copies)s::uuid[], %(data)s::text[])
         i(id, place, key, digest, correlation_key, traceparent, copy_of, data)
    join grouped g on g.place = coalesce(i.place, 1)
),
task as (
    insert into ledgence_task (id, tenant, namespace, queue_id, program_id, policy_id, priority, submitted_at,
                               idempotency_key, digest, correlation_key, traceparent, copy_of, data, revision)
    select id, tenant, namespace, queue_id, program_id, policy_id, priority, clock.now,
           key, digest, correlation_key, traceparent, copy_of, data::json, 0
    from input, clock
    order by tenant, namespace, key, id
    on conflict (tenant, namespace, idempotency_key) where idempotency_key is not null do nothing
    returning id
)
insert into ledgence_deliveryintent (task_id, generation, cause, charged, queue_id, program_id, priority, available_at,
                                     publication_id, next_publish_at)
select i.id, 1, 'submitted', 0, i.queue_id, i.program_id, i.priority, i.available_at,
       case when i.mode = 'external' then gen_random_uuid() end, case when i.mode = 'external' then i.available_at end
from input i join task t on t.id = i.id
returning task_id, queue_id
