-- Groups what went wrong lately by queue, program, outcome and exception, each with its newest task: the newest tasks that
-- failed within a day, and, among the newest attempts, those of the last minutes that are tried again. What tasks failed
-- of lately and not before is new, where the day is known to its beginning. Of a report only the head is read.
-- Locks: nothing. Index: ledgence_task_ended, ledgence_attempt_number and primary keys, one probe a row.
-- Not the ORM: lateral probes, and the exception's class out of a report's text.
with failed as materialized (
    select id, queue_id, program_id, finished_at from ledgence_task
    where outcome = 'failed' and finished_at > statement_timestamp() - make_interval(secs => %(failed_seconds)s)
    order by finished_at desc, id desc
    limit %(failed_limit)s
),
retried as materialized (
    select a.task_id, a.outcome, a.finished_at, a.report
    from (select * from ledgence_attempt order by id desc limit %(retried_limit)s) a
    where a.consequence = 'retry' and a.outcome not in ('interrupted', 'suspended')
      and a.finished_at > statement_timestamp() - make_interval(secs => %(retried_seconds)s)
),
trouble as (
    select true as is_failed, f.id as task_id, f.queue_id, f.program_id, a.outcome, f.finished_at, a.report
    from failed f
    cross join lateral (
        select outcome, report from ledgence_attempt where task_id = f.id order by number desc limit 1
    ) a
    union all
    select false, r.task_id, t.queue_id, t.program_id, r.outcome, r.finished_at, r.report
    from retried r
    cross join lateral (select queue_id, program_id from ledgence_task where id = r.task_id limit 1) t
),
named as materialized (
    select is_failed, task_id, queue_id, program_id, outcome, finished_at,
           coalesce(substring(left(report::text, 2000)
                    from '^\s*\{\s*"error":\s*\{\s*"classes":\s*\[\s*"((?:[^"\\]|\\.)*)"'), '') as class
    from trouble
)
select n.queue_id, p.name, n.outcome, n.class, count(*) filter (where is_failed), count(*) filter (where not is_failed),
       coalesce(min(n.finished_at) filter (where is_failed)
                > statement_timestamp() - make_interval(secs => %(new_seconds)s), false)
           and (select count(*) from failed) < %(failed_limit)s,
       min(n.finished_at), max(n.finished_at), (array_agg(n.task_id order by n.finished_at desc))[1]
from named n join ledgence_program p on p.id = n.program_id
group by n.queue_id, p.name, n.outcome, n.class
order by count(*) desc, max(n.finished_at) desc
