-- Turns intents into leases: locks the first named intents that are free, deletes those of them that are due, inserts an
-- attempt and a lease for each, and returns what a worker needs to run them. For claims by name the generation must
-- match as well.
-- Locks: the intents, one by one until there are enough, skipping those that somebody else holds, so it never waits.
-- The clock is read after the locks.
-- Index: the primary keys of intent, queue and task, one probe a row.
-- Not the ORM: lock, delete and two inserts in one statement.
with held as materialized (
    select i.*
    from unnest(%(tasks)s::uuid[], %(generations)s::int[]) with ordinality n(task_id, generation, place)
    cross join lateral (
        select * from ledgence_deliveryintent
        where task_id = n.task_id and (n.generation is null or generation = n.generation)
        for update skip locked
    ) i
    order by n.place
    limit %(limit)s
),
clock as materialized (select clock_timestamp() as now from (select count(*) from held) after_the_locks),
due as materialized (
    select h.*, c.now, gen_random_uuid() as token
    from held h, clock c
    where h.available_at <= c.now
      -- A search may have seen it before it was moved to a queue that the session does not serve.
      and exists (
          select 1 from ledgence_workersession s, ledgence_queue q
          where s.id = %(session)s and q.id = h.queue_id
            and (s.queues = '{}' or q.name = any(s.queues)) and q.name <> all(s.exclude_queues)
      )
),
taken as (
    delete from ledgence_deliveryintent where task_id = any(array(select task_id from due)) returning task_id
),
work as materialized (
    select d.*, q.name as queue, q.mode, q.destination, p.name as program, p.version,
           t.tenant, t.namespace, t.data::text as data, t.traceparent, y.timeout_seconds, b.bound_at,
           least(d.now + make_interval(secs => %(lease_seconds)s), b.bound_at) as expires_at
    from due d
    cross join lateral (select * from ledgence_task where id = d.task_id limit 1) t
    join ledgence_policy y on y.id = t.policy_id
    join ledgence_queue q on q.id = d.queue_id
    join ledgence_program p on p.id = d.program_id
    cross join lateral (
        select d.now + make_interval(secs => y.timeout_seconds + %(cleanup_seconds)s) as bound_at
    ) b
),
attempt as (
    insert into ledgence_attempt (task_id, number, cause, session_id, token, claimed_at, authorized_at, delivery_mode,
        destination, available_at, publication_id, publications, first_published_at, last_published_at)
    select task_id, generation, cause, %(session)s::uuid, token, now, case when %(authorize)s::bool then now end, mode,
        destination, available_at, publication_id, publications, first_published_at, last_published_at
    from work
),
lease as (
    insert into ledgence_lease (task_id, number, token, session_id, queue_id, program_id, priority, charged, expires_at,
        bound_at)
    select task_id, generation, token, %(session)s::uuid, queue_id, program_id, priority, charged, expires_at, bound_at
    from work
)
select w.task_id, w.generation, w.token, w.cause, w.tenant, w.namespace, w.queue, w.program, w.version, w.data,
       w.now, extract(epoch from w.expires_at - w.now)::float8, w.timeout_seconds, w.traceparent,
       case when w.generation > 1 then (
           select json_agg(json_build_array(a.number, a.cause, a.outcome, a.finished_at) order by a.number)::text
           from (select * from ledgence_attempt where task_id = w.task_id order by number desc limit 100) a
       ) end,
       w.queue_id, extract(epoch from w.now - w.available_at)::float8
from work w
order by w.priority desc, w.available_at, w.task_id
