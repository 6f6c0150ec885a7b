-- Explains dispatches whose generation has no intent, in a new snapshot, from facts that only grow. What a session does
-- not serve does not exist for it, but for work that was moved away from a queue that it serves: the message is superseded.
-- Locks: nothing. Index: primary keys, ledgence_attempt_number, and the events' by task; one probe a dispatch.
-- Not the ORM: pairs as arrays.
with session as materialized (
    select tenant, namespace, queues, exclude_queues from ledgence_workersession where id = %(session)s
)
select r.task_id, r.generation,
       case when t.id is null and e.id is not null then 'terminal_or_superseded'
            when t.id is null then 'not_found'
            when l.task_id is not null then 'already_handed_off'
            when t.outcome is not null or a.number is not null then 'terminal_or_superseded'
            when i.generation > r.generation then 'terminal_or_superseded'
            when i.generation = r.generation then 'ready'
            else 'not_found' end
from unnest(%(tasks)s::uuid[], %(generations)s::int[]) r(task_id, generation)
left join lateral (
    select t.id, t.outcome
    from session s, ledgence_task t join ledgence_queue q on q.id = t.queue_id
    where t.id = r.task_id and t.tenant = s.tenant and t.namespace = s.namespace
      and (s.queues = '{}' or q.name = any(s.queues)) and q.name <> all(s.exclude_queues)
    limit 1
) t on true
left join lateral (
    select task_id from ledgence_lease where task_id = r.task_id and number = r.generation limit 1
) l on true
left join lateral (
    select number from ledgence_attempt where task_id = r.task_id and number = r.generation limit 1
) a on true
left join lateral (select generation from ledgence_deliveryintent where task_id = r.task_id limit 1) i on true
left join lateral (
    select e.id
    from session s, ledgence_deliveryevent e join ledgence_queue q on q.id = (e.detail ->> 'queue')::int
    where t.id is null and e.task_id = r.task_id and e.kind = 'moved' and e.generation >= r.generation
      and q.tenant = s.tenant and q.namespace = s.namespace
      and (s.queues = '{}' or q.name = any(s.queues)) and q.name <> all(s.exclude_queues)
    limit 1
) e on true
