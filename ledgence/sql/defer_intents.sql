-- Gives intents of external queues, which this transaction has locked, a new publication: somebody claimed them who could
-- not run them, and their messages are acknowledged. It is due when the work is; where the session does not know the
-- program, after a second that doubles with each epoch to an hour, since the next receiver may not know it either.
-- Locks: the intents (held already). Index: primary key. Not the ORM: update and insert as one.
with intent as (
    update ledgence_deliveryintent
    set epoch = epoch + 1, publication_id = gen_random_uuid(), publish_token = null, confirmed_at = null,
        next_publish_at = greatest(available_at, clock_timestamp() + case
            when task_id = any(%(unknown)s::uuid[]) then make_interval(secs => least(3600, power(2, least(epoch, 12)) / 2))
            else interval '0' end)
    where task_id = any(%(tasks)s::uuid[]) and publication_id is not null
    returning task_id, generation, epoch, publication_id
)
insert into ledgence_deliveryevent (task_id, generation, kind, epoch, publication_id, detail, happened_at)
select task_id, generation, 'deferred', epoch, publication_id,
       case when task_id = any(%(unknown)s::uuid[]) then '{"reason": "the worker does not know the program"}'::json end,
       clock_timestamp()
from intent
