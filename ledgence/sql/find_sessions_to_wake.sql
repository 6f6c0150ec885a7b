-- Finds which of many waiting sessions should look for work: those with due work that they can run, and those that are
-- over or are to drain. One statement a second in place of one for each of them: sessions that serve the same queues with the same
-- programs are one kind, each queue is walked once as find_due walks it, and only where something is due is each kind
-- probed for one intent of its programs.
-- Locks: nothing. Index: primary key of sessions, ledgence_queue_name, ledgence_intent_due, which holds the programs too.
-- Not the ORM: recursive walk.
with recursive asked as materialized (
    select id, tenant, namespace, queues, exclude_queues, programs,
           closed_at is not null or expires_at <= statement_timestamp() or drain_requested_at is not null as is_over
    from ledgence_workersession where id = any(%(sessions)s::uuid[])
),
kind as materialized (
    select distinct tenant, namespace, queues, exclude_queues, programs from asked where not is_over
),
served as materialized (
    select q.id as queue_id, k.*
    from kind k
    join ledgence_queue q on q.tenant = k.tenant and q.namespace = k.namespace
    where q.mode = 'integrated' and q.paused_at is null
      and (k.queues = '{}' or q.name = any(k.queues)) and q.name <> all(k.exclude_queues)
),
level as (
    select q.queue_id, top.*
    from (select distinct queue_id from served) q cross join lateral (
        select i.priority, i.available_at from ledgence_deliveryintent i
        where i.queue_id = q.queue_id order by i.priority desc, i.available_at, i.task_id limit 1
    ) top
    union all
    select l.queue_id, lower.*
    from level l cross join lateral (
        select i.priority, i.available_at from ledgence_deliveryintent i
        where i.queue_id = l.queue_id and i.priority < l.priority
        order by i.priority desc, i.available_at, i.task_id limit 1
    ) lower
),
due_level as materialized (
    select queue_id, priority from level where available_at <= statement_timestamp()
),
kind_to_wake as materialized (
    select distinct s.tenant, s.namespace, s.queues, s.exclude_queues, s.programs
    from served s join due_level l on l.queue_id = s.queue_id
    where exists (
        select 1 from ledgence_deliveryintent i
        where i.queue_id = l.queue_id and i.priority = l.priority and i.available_at <= statement_timestamp()
          and i.program_id = any(s.programs)
    )
)
select a.id from asked a
where a.is_over or exists (
    select 1 from kind_to_wake k
    where k.tenant = a.tenant and k.namespace = a.namespace and k.queues = a.queues
      and k.exclude_queues = a.exclude_queues and k.programs = a.programs
)
