-- Gives queued tasks, whose intents this transaction has locked, a priority.
-- Locks: the intents (held already), the tasks (no key update). Index: primary keys; the task's stands as
-- = any(array[key]) so that it is probed and not read whole (see end_attempts). Not the ORM: two updates as one.
with intent as (
    update ledgence_deliveryintent
    set priority = %(priority)s
    where task_id = any(%(tasks)s::uuid[]) and priority <> %(priority)s
    returning task_id, queue_id
),
task as (
    update ledgence_task t set priority = %(priority)s from intent i where t.id = any(array[i.task_id])
)
select task_id, queue_id from intent
