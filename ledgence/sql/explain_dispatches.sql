-- Explains dispatches whose generation has no intent, in a new snapshot, from facts that only grow.
-- Locks: nothing. Index: primary keys, ledgence_attempt_number. Not the ORM: pairs as arrays.
select r.task_id, r.generation,
       case when t.id is null or t.tenant <> %(tenant)s or t.namespace <> %(namespace)s then 'not_found'
            when l.task_id is not null then 'already_handed_off'
            when t.outcome is not null or a.number is not null then 'terminal_or_superseded'
            when i.generation > r.generation then 'terminal_or_superseded'
            when i.generation = r.generation then 'ready'
            else 'not_found' end
from unnest(%(tasks)s::uuid[], %(generations)s::int[]) r(task_id, generation)
left join ledgence_task t on t.id = r.task_id
left join ledgence_lease l on l.task_id = r.task_id and l.number = r.generation
left join ledgence_attempt a on a.task_id = r.task_id and a.number = r.generation
left join ledgence_deliveryintent i on i.task_id = r.task_id
