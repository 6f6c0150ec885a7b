-- Tells which kinds of tasks there are among thousands, as far as that decides what an operator may do, and how many of
-- each. What does not exist is left out.
-- Locks: nothing. Index: primary keys of task, intent and lease, one probe a task.
-- Not the ORM: lateral probes; joins would read whole tables when the statistics are old.
select t.outcome, i.task_id is not null, coalesce(i.available_at > statement_timestamp(), false), l.task_id is not null,
       l.cancel_requested_at is not null, count(*)
from unnest(%(tasks)s::uuid[]) r(id)
cross join lateral (select outcome from ledgence_task where id = r.id limit 1) t
left join lateral (select task_id, available_at from ledgence_deliveryintent where task_id = r.id limit 1) i on true
left join lateral (select task_id, cancel_requested_at from ledgence_lease where task_id = r.id limit 1) l on true
group by 1, 2, 3, 4, 5
