-- Reads where one task is, in one snapshot: its terms, its queue and program, its intent with its last delivery event and
-- the queue's best publisher, its lease with the session that holds it, and its last attempt. The best publisher is one
-- that turns and succeeds, else one that turns, else the last that did. The columns stand in the order of the values in
-- ledgence.explanation.facts.
-- Of a report only the head is read, which holds the exception and, without one, the exit status: a report may have
-- megabytes. Of the attempts before the last one only the newest are looked at, and less of each. Events are sorted by
-- time and not by key, or the planner may prefer to walk the key backwards through the events of all tasks.
-- Locks: nothing. Index: primary keys, ledgence_attempt_number, and that of the events' foreign key, one probe each.
-- Not the ORM: several probes in one snapshot, or a task that moves between them would seem to be nowhere.
select statement_timestamp(),
       t.id, t.tenant, t.namespace, t.outcome, t.finished_at, t.revision, y.max_attempts, y.timeout_seconds,
       q.id, q.name, q.mode, q.destination, q.paused_at, q.paused_until, q.paused_by, q.pause_reason,
       p.id, p.name, p.version,
       i.generation, i.cause, i.charged, i.priority, i.available_at, i.epoch, i.publications, i.first_published_at,
       i.last_published_at, i.next_publish_at, i.publish_token is not null, i.confirmed_at, i.refusals,
       e.kind, e.happened_at, e.detail::text,
       u.id, q.name, u.host, u.pid, u.version, u.started_at,
       extract(epoch from statement_timestamp() - u.turned_at)::float8,
       extract(epoch from statement_timestamp() - u.confirmed_at)::float8, u.failure,
       l.number, l.charged, l.expires_at, l.bound_at, l.cancel_requested_at,
       s.id, s.name, s.host, s.pid, s.closed_at, s.expires_at, s.extended_at,
       a.number, a.id, a.outcome, a.claimed_at, a.authorized_at, a.finished_at, left(a.report::text, 20000),
       (select host from ledgence_workersession where id = a.session_id),
       array(
           select array[n.outcome, left(n.report::text, 2000)] from ledgence_attempt n
           where n.task_id = t.id and n.outcome is not null order by n.number desc limit %(endings)s
       )
from (select * from ledgence_task where id = %(task)s limit 1) t
join ledgence_policy y on y.id = t.policy_id
join ledgence_program p on p.id = t.program_id
left join lateral (select * from ledgence_deliveryintent where task_id = t.id limit 1) i on true
left join lateral (select * from ledgence_lease where task_id = t.id limit 1) l on true
join ledgence_queue q on q.id = coalesce(i.queue_id, l.queue_id, t.queue_id)
left join lateral (
    select * from ledgence_deliveryevent where task_id = i.task_id and generation = i.generation
    order by happened_at desc, id desc limit 1
) e on true
left join lateral (
    select * from ledgence_publisher where queue_id = q.id and i.task_id is not null
    order by turned_at > statement_timestamp() - make_interval(secs => %(silent_seconds)s) desc, failure, turned_at desc
    limit 1
) u on true
left join lateral (select * from ledgence_workersession where id = l.session_id limit 1) s on true
left join lateral (select * from ledgence_attempt where task_id = t.id order by number desc limit 1) a on true
