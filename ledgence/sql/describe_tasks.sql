-- Tells people where tasks are: what they wait for or who holds them, and how the last attempt ended. One row a task.
-- Of a report only the head is read: it holds the exception's class, and a report may have megabytes.
-- Locks: nothing. Index: primary keys and ledgence_attempt_number, one probe a task.
-- Not the ORM: lateral probes; joins would read whole tables when the statistics are old.
select t.id, t.outcome, t.revision, y.max_attempts,
       i.generation, i.available_at, i.available_at > statement_timestamp(), q.paused_at is not null,
       l.number, l.expires_at, l.expires_at <= statement_timestamp(), l.cancel_requested_at is not null,
       coalesce(i.charged, l.charged), a.number, a.outcome, left(a.report::text, 2000)
from unnest(%(tasks)s::uuid[]) r(id)
cross join lateral (select * from ledgence_task where id = r.id limit 1) t
join ledgence_policy y on y.id = t.policy_id
join ledgence_queue q on q.id = t.queue_id
left join lateral (select * from ledgence_deliveryintent where task_id = r.id limit 1) i on true
left join lateral (select * from ledgence_lease where task_id = r.id limit 1) l on true
left join lateral (select * from ledgence_attempt where task_id = r.id order by number desc limit 1) a on true
