-- Cancels queued tasks whose intents this transaction has locked: the intent goes, an attempt that was never leased takes
-- its number, so that the generation is never used twice, and the task is terminal.
-- Locks: the tasks (no key update). Index: primary keys. Not the ORM: delete, insert and update as one.
with clock as materialized (select clock_timestamp() as now),
taken as (
    delete from ledgence_deliveryintent where task_id = any(%(tasks)s::uuid[]) returning *
),
attempt as (
    insert into ledgence_attempt (task_id, number, cause, finished_at, outcome, consequence, delivery_mode, destination,
        available_at, publication_id, publications, first_published_at, last_published_at)
    select i.task_id, i.generation, i.cause, c.now, 'cancelled', 'cancelled', q.mode, q.destination,
        i.available_at, i.publication_id, i.publications, i.first_published_at, i.last_published_at
    from taken i join ledgence_queue q on q.id = i.queue_id, clock c
)
update ledgence_task t
set outcome = 'cancelled', finished_at = c.now, cancel_requested_at = c.now, revision = t.revision + 1
from taken i, clock c
where t.id = i.task_id
returning t.id
