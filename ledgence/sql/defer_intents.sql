-- Gives intents of external queues, which this transaction has locked, a new publication, due when the work is: somebody
-- claimed them too early, or while their queue was paused, and their messages are acknowledged.
-- Locks: the intents (held already). Index: primary key. Not the ORM: update and insert as one.
with intent as (
    update ledgence_deliveryintent
    set epoch = epoch + 1, publication_id = gen_random_uuid(), publish_token = null, confirmed_at = null,
        next_publish_at = greatest(available_at, clock_timestamp())
    where task_id = any(%(tasks)s::uuid[]) and publication_id is not null
    returning task_id, generation, epoch, publication_id
)
insert into ledgence_deliveryevent (task_id, generation, kind, epoch, publication_id, happened_at)
select task_id, generation, 'deferred', epoch, publication_id, clock_timestamp() from intent
