-- Finds the open worker sessions (of one tenant and namespace, where they are named), with what they run and how long
-- ago they were last heard of. Where a queue and a program are named, those come first that serve the queue, and of these
-- those that know the program's version; it tells the versions that each has.
-- Locks: nothing. Index: ledgence_session_open, ledgence_program_version. Leases are few and read whole: an index by
-- session would cost each claim more than this saves.
-- Not the ORM: the sessions' arrays, the clock.
with program as materialized (
    select id, version from ledgence_program
    where tenant = %(tenant)s::text and namespace = %(namespace)s::text and name = %(program)s::text
),
held as materialized (
    select l.session_id, count(*) filter (where l.expires_at > statement_timestamp()) as live,
           array_agg(p.name || ' ' || p.version) as running
    from ledgence_lease l join ledgence_program p on p.id = l.program_id
    group by l.session_id
),
session as materialized (
    select s.*,
           %(queue)s::text is null
           or ((s.queues = '{}' or %(queue)s::text = any(s.queues)) and %(queue)s::text <> all(s.exclude_queues)) as serves,
           array(select p.version from program p where p.id = any(s.programs) order by p.id desc) as versions
    from ledgence_workersession s
    where s.closed_at is null and s.expires_at > statement_timestamp()
      and (%(tenant)s::text is null or s.tenant = %(tenant)s::text)
      and (%(namespace)s::text is null or s.namespace = %(namespace)s::text)
)
select s.id, s.tenant, s.namespace, s.name, s.host, s.pid, s.version, s.concurrency, s.queues, s.exclude_queues,
       s.opened_at, s.expires_at, s.drain_requested_at,
       extract(epoch from statement_timestamp() - s.extended_at)::float8,
       coalesce(h.running, '{}'), coalesce(h.live, 0), s.serves, s.versions
from session s
left join held h on h.session_id = s.id
order by s.serves desc, coalesce(%(version)s::text = any(s.versions), false) desc, s.opened_at desc, s.id
limit %(limit)s
