-- Reads which programs have had due work for long that no live session serves: its queue or its program is in none.
-- Looks at a thousand overdue intents of each queue, enough to name them, whatever the backlog.
-- Locks: nothing. Index: ledgence_intent_due by queue. Not the ORM: lateral probes, the sessions' arrays, the clock.
with session as materialized (
    select tenant, namespace, queues, exclude_queues, programs from ledgence_workersession
    where closed_at is null and expires_at > clock_timestamp()
      and (extended_at is null or extended_at > clock_timestamp() - make_interval(secs => %(silent_seconds)s))
),
overdue as materialized (
    select q.id as queue_id, q.tenant, q.namespace, q.name, i.program_id, count(*) as count
    from ledgence_queue q cross join lateral (
        select program_id from ledgence_deliveryintent
        where queue_id = q.id and available_at < statement_timestamp() - make_interval(secs => %(seconds)s)
        order by priority desc, available_at, task_id
        limit 1000
    ) i
    where q.paused_at is null
    group by q.id, i.program_id
)
select o.tenant, o.namespace, o.name, p.name, p.version, o.count, o.queue_id, o.program_id
from overdue o join ledgence_program p on p.id = o.program_id
where not exists (
    select 1 from session s
    where s.tenant = o.tenant and s.namespace = o.namespace and o.program_id = any(s.programs)
      and (s.queues = '{}' or o.name = any(s.queues)) and o.name <> all(s.exclude_queues)
)
order by o.tenant, o.namespace, o.name, p.name, p.version
