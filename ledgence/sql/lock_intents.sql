-- Locks the intents of named tasks, for a claim by name, cancellation or a republish.
-- Locks: the intents, waiting, in task order. Index: the intent's primary key.
-- Not the ORM: kept beside its siblings; the clock is the database's.
select task_id, generation, available_at <= clock_timestamp(), queue_id
from ledgence_deliveryintent
where task_id = any(%(tasks)s::uuid[])
order by task_id
for update
