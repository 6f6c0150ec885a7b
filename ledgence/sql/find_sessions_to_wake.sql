-- Finds which of many waiting sessions should look for work: those with due work that they can run, and those that are
-- over. One statement a second in place of one for each of them. For each session it walks the priorities that exist in
-- each of its queues, as find_due does, and probes each for one due intent of its catalogue.
-- Locks: nothing. Index: primary key of sessions, ledgence_queue_name, ledgence_intent_due.
-- Not the ORM: recursive walk.
select s.id
from unnest(%(sessions)s::uuid[]) asked(id)
left join ledgence_workersession s on s.id = asked.id
where s.id is not null and (
    s.closed_at is not null or s.expires_at <= statement_timestamp() or exists (
        select 1
        from ledgence_queue q
        cross join lateral (
            with recursive level as (
                (select i.priority, i.available_at from ledgence_deliveryintent i
                 where i.queue_id = q.id order by i.priority desc, i.available_at, i.task_id limit 1)
                union all
                select lower.priority, lower.available_at
                from level l cross join lateral (
                    select i.priority, i.available_at from ledgence_deliveryintent i
                    where i.queue_id = q.id and i.priority < l.priority
                    order by i.priority desc, i.available_at, i.task_id limit 1
                ) lower
            )
            select 1 from level l
            where l.available_at <= statement_timestamp() and exists (
                select 1 from ledgence_deliveryintent i
                where i.queue_id = q.id and i.priority = l.priority and i.available_at <= statement_timestamp()
                  and i.program_id = any(s.programs)
            )
            limit 1
        ) due
        where q.tenant = s.tenant and q.namespace = s.namespace and q.mode = 'integrated' and q.paused_at is null
          and (s.queues = '{}' or q.name = any(s.queues)) and q.name <> all(s.exclude_queues)
    )
)
