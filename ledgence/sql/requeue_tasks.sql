-- Requeues failed and cancelled tasks that this transaction has locked and whose revision is the expected one: the
-- outcome goes, and the next generation is ready with its attempt budget anew.
-- Locks: the tasks (held already), and their queues (key share), so that none changes its route before the commit.
-- Index: ledgence_attempt_number, and the primary key, named as = any(array[key]) so that it is probed and not read whole
-- (see end_attempts). Not the ORM: update and insert as one.
with request as materialized (
    select * from unnest(%(tasks)s::uuid[], %(revisions)s::int[]) r(task_id, revision)
),
task as (
    update ledgence_task t
    set outcome = null, finished_at = null, result = null, cancel_requested_at = null, revision = t.revision + 1
    from request r
    where t.id = any(array[r.task_id]) and t.revision = r.revision
      -- Not named as failed or cancelled: the index of all those must not look like a way to these.
      and t.outcome <> 'succeeded'
    returning t.id, t.queue_id, t.program_id, t.priority
),
queue as materialized (
    select id, mode from ledgence_queue where id = any(array(select queue_id from task)) order by id for key share
)
insert into ledgence_deliveryintent (task_id, generation, cause, charged, queue_id, program_id, priority, available_at,
                                     publication_id, next_publish_at)
select t.id, (select max(a.number) + 1 from ledgence_attempt a where a.task_id = t.id), 'requeued', 0, t.queue_id,
       t.program_id, t.priority, clock_timestamp(),
       case when q.mode = 'external' then gen_random_uuid() end,
       case when q.mode = 'external' then clock_timestamp() end
from task t join queue q on q.id = t.queue_id
returning task_id, queue_id
