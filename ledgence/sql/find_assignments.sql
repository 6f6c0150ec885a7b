-- Reads the assignments that a channel recorded, for a repeated command: those whose lease is live with its authority as
-- it is now, the others without a lease. Locks: nothing. Index: ledgence_attempt_number and primary keys.
-- Task and lease are found by their keys, one probe each: while tables are empty, a plan could begin with the index of a
-- queue's tasks, or of expiry, and keep to it.
-- Not the ORM: pairs as arrays, and the clock.
with clock as materialized (select clock_timestamp() as now)
select a.task_id, a.number, a.token, a.cause, t.tenant, t.namespace, q.name, p.name, p.version, t.data::text,
       a.claimed_at, extract(epoch from l.expires_at - c.now)::float8,
       y.timeout_seconds - extract(epoch from c.now - coalesce(a.authorized_at, c.now))::float8, t.traceparent,
       case when a.number > 1 then (
           select json_agg(json_build_array(e.number, e.cause, e.outcome, e.finished_at) order by e.number)::text
           from (select * from ledgence_attempt where task_id = a.task_id and number < a.number
                 order by number desc limit 100) e
       ) end
from clock c, unnest(%(tasks)s::uuid[], %(attempts)s::int[]) with ordinality r(task_id, number, place)
cross join lateral (
    select * from ledgence_attempt where task_id = r.task_id and number = r.number and session_id = %(session)s limit 1
) a
cross join lateral (select * from ledgence_task where id = a.task_id limit 1) t
join ledgence_policy y on y.id = t.policy_id
join ledgence_queue q on q.id = t.queue_id
join ledgence_program p on p.id = t.program_id
left join lateral (
    select * from ledgence_lease where task_id = a.task_id and number = a.number and token = a.token limit 1
) l on l.expires_at > (select now from clock)
order by r.place
