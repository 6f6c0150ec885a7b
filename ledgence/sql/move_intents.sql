-- Moves queued tasks, whose intents this transaction has locked, to the queue of a name in their own tenant and namespace.
-- The publication follows the queue's mode: a new one under a new epoch, or none. A publication that is void by that is
-- recorded with the queue that it was for, which is how its message is explained to whoever claims it there. Answers each
-- task that has such a queue, with that queue and whether it was moved.
-- Locks: the intents (held already); the queues (key share), so that none changes its route before the commit; the tasks
-- (no key update). Index: primary keys and ledgence_queue_name. The keys stand as = any(array[key]) so that they are
-- probed and not read whole (see end_attempts). Not the ORM: two updates and an insert as one.
with clock as materialized (select clock_timestamp() as now),
scope as materialized (
    select i.task_id, i.generation, i.epoch, i.queue_id, i.publication_id, t.tenant, t.namespace
    from ledgence_deliveryintent i
    cross join lateral (select tenant, namespace from ledgence_task where id = i.task_id limit 1) t
    where i.task_id = any(%(tasks)s::uuid[])
),
target as materialized (
    select id, tenant, namespace, mode from ledgence_queue
    where name = %(queue)s and (tenant, namespace) in (select tenant, namespace from scope)
    order by id for key share
),
moved as (
    update ledgence_deliveryintent i
    set queue_id = q.id, epoch = i.epoch + 1, publish_token = null, confirmed_at = null, refusals = 0,
        publication_id = case when q.mode = 'external' then gen_random_uuid() end,
        next_publish_at = case when q.mode = 'external' then greatest(i.available_at, c.now) end
    from clock c, scope s join target q on q.tenant = s.tenant and q.namespace = s.namespace
    where i.task_id = any(array[s.task_id]) and s.queue_id <> q.id
    returning i.task_id, q.id as queue_id
),
task as (
    update ledgence_task t set queue_id = m.queue_id from moved m where t.id = any(array[m.task_id])
),
event as (
    insert into ledgence_deliveryevent (task_id, generation, kind, epoch, publication_id, detail, happened_at)
    select s.task_id, s.generation, 'moved', s.epoch, s.publication_id, json_build_object('queue', s.queue_id), c.now
    from clock c, scope s join moved m on m.task_id = s.task_id
    where s.publication_id is not null
)
select s.task_id, q.id, m.task_id is not null
from scope s
join target q on q.tenant = s.tenant and q.namespace = s.namespace
left join moved m on m.task_id = s.task_id
